import type { DescMethod } from "@bufbuild/protobuf";
import { AdminService } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { Health } from "@trunkline/proto/health";
import { ServerReflection } from "@trunkline/proto/reflection";
import { ServerReflection as ServerReflectionV1Alpha } from "@trunkline/proto/reflection-v1alpha";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { WorkerService } from "@trunkline/proto/worker";
import type { Caller, Right } from "../core/caller.js";
import { TrunklineError } from "../core/error.js";

/** Who may use an RPC. */
export type AccessRule =
  /** Everybody, with and without a credential. */
  | "everybody"
  /** Whoever has a credential that is good. */
  | "caller"
  /** Whoever has that right. */
  | Right
  /** As `harness`, but not an end user: it is about what belongs to the whole project. */
  | "project_harness"
  /** Any API key, for what it may do itself. */
  | "key"
  /** The root key: it is about the whole server. */
  | "root";

/** A rule for each method of a service: one that is missing does not compile, as does one too many. */
type RulesOf<S extends { readonly method: object }> = Readonly<Record<keyof S["method"], AccessRule>>;

const workerRules: RulesOf<typeof WorkerService> = {
  work: "worker",
  claimCalls: "worker",
  heartbeat: "worker",
  answerCalls: "worker",
  deferCall: "worker",
  releaseCalls: "worker",
};

const callRules: RulesOf<typeof CallService> = {
  drive: "harness",
  openCalls: "harness",
  waitCalls: "harness",
  getCall: "harness",
  listCalls: "harness",
  cancelCall: "harness",
  settleCalls: "harness",
  issueToken: "harness",
};

/** The completion token in the request is all that is needed. */
const taskRules: RulesOf<typeof TaskService> = {
  completeTask: "everybody",
  failTask: "everybody",
  getTask: "everybody",
};

const runRules: RulesOf<typeof RunService> = {
  createRun: "harness",
  getRun: "harness",
  listRuns: "harness",
  endRun: "harness",
  watchRun: "harness",
};

const toolsetRules: RulesOf<typeof ToolsetService> = {
  putToolset: "project_harness",
  getToolset: "harness",
  listToolsets: "harness",
  deleteToolset: "project_harness",
};

const adminRules: RulesOf<typeof AdminService> = {
  createKey: "admin",
  listKeys: "admin",
  revokeKey: "admin",
  rotateKey: "admin",
  createToken: "key",
  revokeToken: "admin",
  rotateSigningKey: "admin",
  createProject: "root",
  listProjects: "root",
  listWorkers: "admin",
  getStats: "admin",
};

const healthRules: RulesOf<typeof Health> = { check: "everybody", watch: "everybody" };
const reflectionRules: RulesOf<typeof ServerReflection> = { serverReflectionInfo: "caller" };
const reflectionV1AlphaRules: RulesOf<typeof ServerReflectionV1Alpha> = { serverReflectionInfo: "caller" };

/** The one table of who may use what, by service and method. */
export const ACCESS_RULES: Readonly<Record<string, Readonly<Record<string, AccessRule>>>> = {
  [WorkerService.typeName]: workerRules,
  [CallService.typeName]: callRules,
  [TaskService.typeName]: taskRules,
  [RunService.typeName]: runRules,
  [ToolsetService.typeName]: toolsetRules,
  [AdminService.typeName]: adminRules,
  [Health.typeName]: healthRules,
  [ServerReflection.typeName]: reflectionRules,
  [ServerReflectionV1Alpha.typeName]: reflectionV1AlphaRules,
};

/** The rule of a method. What is in no table is nobody's but the root key's. */
export function ruleOf({ parent, localName }: DescMethod): AccessRule {
  return ACCESS_RULES[parent.typeName]?.[localName] ?? "root";
}

/**
 * Lets a caller use a method, or not.
 *
 * @throws TrunklineError PERMISSION_DENIED
 */
export function permit(caller: Caller, method: DescMethod): void {
  const rule = ruleOf(method);
  if (isPermitted(caller, rule)) return;
  throw new TrunklineError(
    "PERMISSION_DENIED",
    `${method.parent.typeName}/${method.name} is for ${WORDS[rule]}; ${nameOf(caller)} is not one`,
  );
}

function isPermitted({ kind, rights }: Caller, rule: AccessRule): boolean {
  if (kind === "root" || kind === "anyone") return true;
  switch (rule) {
    case "everybody":
    case "caller":
      return true;
    case "key":
      return kind === "key";
    case "project_harness":
      return kind === "key" && rights.has("harness");
    case "root":
      return false;
    case "worker":
    case "harness":
    case "admin":
      return rights.has(rule);
  }
}

const WORDS: Readonly<Record<AccessRule, string>> = {
  everybody: "everybody",
  caller: "holders of a credential",
  key: "holders of an API key",
  worker: "credentials with the scope worker",
  harness: "credentials with the scope harness",
  project_harness: "API keys with the scope harness",
  admin: "API keys with the scope admin",
  root: "the root key",
};

function nameOf({ kind, rights }: Caller): string {
  const what = kind === "token" ? "this token" : "this key";
  return `${what}, with the scope ${[...rights].join(", ")},`;
}
