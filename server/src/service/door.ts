import type { CallSpec } from "@trunkline/proto/call";
import type { RunSpec as WireRunSpec } from "@trunkline/proto/run";
import type { Executor } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import { checkJsonText, parseJsonText, quoted } from "../core/json-text.js";
import { LIMITS } from "../core/limits.js";
import { checkLabels, checkName, checkToolName, checkTraceparent } from "../core/name.js";
import { resolvePolicy, type Policy } from "../core/policy.js";
import type { Scope } from "../core/scope.js";
import type { OpenRequest } from "../exchange/opener.js";
import type { KnownRun, RunSpec } from "../exchange/runs.js";
import { toPolicyPatch } from "./convert-policy.js";
import { fromDuration } from "./convert-time.js";
import { invalidField, missingField, under } from "./door-field.js";
import { nearNames } from "./near-names.js";
import type { DeclaredTool, ToolTable } from "./toolset-catalog.js";

export { checkAnswer, checkWorkerAnswer } from "./door-answer.js";
export { hashToken, newSecret, parseCallRefId, parseTokenText } from "./door-token.js";

const INPUT = { maxBytes: LIMITS.payloadBytes };
/** Turns rest in a signed column. */
const MAX_TURN = 2 ** 31 - 1;
const MAX_PRIORITY = 100;
const DEFAULT_NAMESPACE = "default";

/** What {@link checkCallSpec} checks against. */
export interface CallDoor {
  readonly run: KnownRun;
  /** Null for a run without a toolset. */
  readonly tools: ToolTable | null;
  readonly heartbeatIntervalMs: number;
}

/**
 * What opens a call, checked. This is on the hot path: it parses the input once and makes little else.
 *
 * @param field what the spec is called in messages, as `calls[3]`
 * @throws TrunklineError INVALID_FIELD, INVALID_JSON, LIMIT_EXCEEDED, SCHEMA_VIOLATION or TOOL_UNKNOWN naming the
 *   field under `field`
 */
export function checkCallSpec(spec: CallSpec | undefined, door: CallDoor, field: string): OpenRequest {
  if (spec === undefined) throw missingField(field, "is what opens a call");
  const { turn, priority } = spec;
  const tool = declaredTool(spec.tool, door, field);
  const inputJson = spec.inputJson === "" ? "null" : spec.inputJson;
  checkInput(inputJson, tool, field);
  if (spec.key !== "") checkName(spec.key, `${field}.key`);
  if (turn !== undefined && turn > MAX_TURN) {
    throw invalidField(`${field}.turn`, turn, `is 0 to ${String(MAX_TURN)}`);
  }
  if (priority < -MAX_PRIORITY || priority > MAX_PRIORITY) {
    throw invalidField(
      `${field}.priority`,
      priority,
      `is -${String(MAX_PRIORITY)} to ${String(MAX_PRIORITY)}`,
    );
  }
  if (spec.traceparent !== "") checkTraceparent(spec.traceparent, `${field}.traceparent`);
  return {
    run: door.run,
    tool: spec.tool,
    executor: executorOf(tool),
    policy: policyOf(spec, tool, door.heartbeatIntervalMs, field),
    inputJson,
    key: spec.key,
    turn: turn ?? null,
    priority,
    traceparent: spec.traceparent,
  };
}

function executorOf(tool: DeclaredTool | undefined): Executor {
  return tool === undefined ? "worker" : tool.executor;
}

function declaredTool(name: string, { run, tools }: CallDoor, field: string): DeclaredTool | undefined {
  if (tools === null) {
    checkToolName(name, `${field}.tool`);
    return undefined;
  }
  const tool = tools.get(name);
  if (tool !== undefined) return tool;
  checkToolName(name, `${field}.tool`);
  const near = nearNames(name, tools.keys())
    .map((each) => quoted(each))
    .join(", ");
  throw new TrunklineError(
    "TOOL_UNKNOWN",
    `${field}.tool: toolset ${quoted(run.record.toolset ?? "")} version ${String(run.record.toolsetVersion)} does not ` +
      `declare ${quoted(name)}; allowed are its tools (${String(tools.size)}), such as ${near}`,
    { metadata: { field: `${field}.tool`, value: name } },
  );
}

function checkInput(inputJson: string, tool: DeclaredTool | undefined, field: string): void {
  const schema = tool?.input ?? null;
  if (schema === null) {
    checkJsonText(inputJson, `${field}.input_json`, INPUT);
    return;
  }
  const value = parseJsonText(inputJson, `${field}.input_json`, INPUT);
  const fault = schema.check(value, `${field}.input_json`);
  if (fault !== undefined) {
    throw new TrunklineError("SCHEMA_VIOLATION", fault, { metadata: { field: `${field}.input_json` } });
  }
}

function policyOf(
  { policy }: CallSpec,
  tool: DeclaredTool | undefined,
  heartbeatIntervalMs: number,
  field: string,
): Policy {
  if (policy === undefined) {
    return tool === undefined
      ? resolvePolicy(undefined, undefined, heartbeatIntervalMs)
      : tool.policyFor(null, heartbeatIntervalMs);
  }
  const patch = toPolicyPatch(policy, `${field}.policy`);
  return under(field, () =>
    tool === undefined
      ? resolvePolicy(undefined, patch, heartbeatIntervalMs)
      : tool.policyFor(patch, heartbeatIntervalMs),
  );
}

/**
 * What makes a run, checked. Without a namespace it is `default`, or the one that the credential is bound to.
 *
 * @param field what the spec is called in messages
 * @throws TrunklineError INVALID_FIELD or LIMIT_EXCEEDED; PERMISSION_DENIED for a namespace that the credential
 *   does not reach
 */
export function checkRunSpec(spec: WireRunSpec | undefined, scope: Scope, field = "spec"): RunSpec {
  if (spec === undefined) throw missingField(field, "is what makes a run");
  if (scope.runId !== undefined) {
    throw new TrunklineError(
      "PERMISSION_DENIED",
      `this token is for run ${scope.runId} alone: it makes no other one`,
    );
  }
  const namespace = spec.namespace === "" ? (scope.namespace ?? DEFAULT_NAMESPACE) : spec.namespace;
  checkName(namespace, `${field}.namespace`);
  if (scope.namespace !== null && namespace !== scope.namespace) {
    throw new TrunklineError(
      "PERMISSION_DENIED",
      `${field}.namespace is ${quoted(namespace)}; allowed is ${quoted(scope.namespace)}`,
      { metadata: { field: `${field}.namespace` } },
    );
  }
  if (spec.toolset !== "") checkName(spec.toolset, `${field}.toolset`);
  checkLabels(spec.labels, `${field}.labels`);
  if (spec.key !== "") checkName(spec.key, `${field}.key`);
  return {
    namespace,
    toolset: spec.toolset === "" ? null : spec.toolset,
    labels: spec.labels,
    ttlMs: spec.ttl === undefined ? null : fromDuration(spec.ttl, `${field}.ttl`),
    key: spec.key === "" ? null : spec.key,
  };
}
