import { randomBytes, randomUUID } from "node:crypto";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { AdminService, KeyScope } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { Executor } from "@trunkline/proto/model";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { WorkerService } from "@trunkline/proto/worker";
import { expect } from "vitest";
import { newHello, WorkClient } from "../raw-stream.js";
import type { Target } from "./target.js";

/** The project whose data others try to reach, and theirs. Of one length, as all that is compared. */
export const VICTIM = "project-of-the-victim";
export const OTHER = "project-of-another--";
/** The end user whose data others try to reach, another one of that project whom nobody here is, and who tries. */
export const ADA = "ada-the-end-user";
const BOB = "bob-the-end-user";
export const EVE = "eve-the-end-user";

const { WORKER, HARNESS, ADMIN } = KeyScope;
export const ALL_SCOPES = [WORKER, HARNESS, ADMIN];

/** Clients of all services that show a credential. */
export function clientsOf(url: string, credential: string) {
  const transport = createConnectTransport({
    baseUrl: url,
    httpVersion: "1.1",
    interceptors: [show(credential)],
  });
  return {
    admin: createClient(AdminService, transport),
    calls: createClient(CallService, transport),
    runs: createClient(RunService, transport),
    tasks: createClient(TaskService, transport),
    toolsets: createClient(ToolsetService, transport),
    workers: createClient(WorkerService, transport),
  };
}

/** A `Work` stream of who shows a credential. */
export function workOf(
  url: string,
  credential: string,
  hello: Parameters<typeof WorkClient.open>[1],
): Promise<WorkClient> {
  return WorkClient.open(url, hello, (options) =>
    createGrpcTransport({ ...options, interceptors: [show(credential)] }),
  );
}

function show(credential: string): Interceptor {
  return (next) => (request) => {
    request.header.set("authorization", `Bearer ${credential}`);
    return next(request);
  };
}

/** The tools of the victim's run, one for each state that a call of it is in. */
export const TOOLS = ["queued", "polled", "streamed", "deferred", "asked", "ended"];

/** What the victim has, and what is true of each of its calls. */
export interface Victim {
  readonly key: string;
  readonly runId: string;
  /** Another run of the same end user. */
  readonly otherRunId: string;
  /** By what state its call is in. */
  readonly targets: readonly Target[];
  /** A token that answers the deferred call. */
  readonly task: string;
  /** A worker of the end user's, with an open stream and one call. */
  readonly worker: WorkClient;
  /** What no answer to anybody else may have in it, unless they said it themselves. */
  readonly secrets: readonly string[];
}

/** Fills the victim's project with one of everything. */
export async function makeVictim(url: string, rootKey: string): Promise<Victim> {
  const root = clientsOf(url, rootKey).admin;
  const made = await root.createKey({ name: "all", scopes: ALL_SCOPES, project: VICTIM });
  const key = made.secret;
  const own = clientsOf(url, key);
  const { token, tokenId } = await own.admin.createToken({ namespace: ADA, scopes: [WORKER, HARNESS] });
  const spare = await own.admin.createKey({ name: "spare", scopes: ALL_SCOPES });
  const [toolset, label, runKey] = ["toolset-of-the-victim", "label-of-the-victim", "run-key-of-the-victim"];
  const tools = TOOLS.map((name) => ({
    name,
    executor: name === "asked" ? Executor.CLIENT : Executor.WORKER,
  }));
  for (const id of [toolset, "another-toolset-of-the-victim"]) await own.toolsets.putToolset({ id, tools });
  const newRun = async (namespace: string, spec = {}): Promise<string> =>
    (await own.runs.createRun({ spec: { namespace, toolset, ...spec } })).run!.id;
  const runId = await newRun(ADA, { key: runKey, labels: { label } });
  const otherRunId = await newRun(ADA);
  await own.calls.openCalls({
    runId: await newRun(BOB),
    calls: [{ tool: "asked", key: "call-key-of-bob", turn: 3 }],
  });
  const input = "input-of-the-victim";
  const { results } = await own.calls.openCalls({
    runId,
    calls: TOOLS.map((tool) => ({ tool, key: keyOf(tool), turn: 3, inputJson: JSON.stringify(input) })),
  });
  expect(results.every(({ result }) => result.case === "opened")).toBe(true);

  const polled = await poll(own.workers, "polled");
  const deferred = await poll(own.workers, "deferred");
  const ended = await poll(own.workers, "ended");
  const secret = randomBytes(32).toString("base64url");
  await own.workers.deferCall({ ...deferred.who, deferral: { ...deferred.claim, secret } });
  const answers = [
    { ...ended.claim, outcome: { case: "resultJson" as const, value: '"result-of-the-victim"' } },
  ];
  await own.workers.answerCalls({ ...ended.who, answers });
  const hello = newHello({ tools: ["streamed"], slots: 1 });
  const worker = await workOf(url, token, hello);
  const streamed = await worker.claimOf(`${runId}/3`);
  worker.accept(streamed);

  const { nextPageToken: calls } = await own.calls.listCalls({ pageSize: 1 });
  const { nextPageToken: runs } = await own.runs.listRuns({ pageSize: 1 });
  const { nextPageToken: toolsets } = await own.toolsets.listToolsets({ pageSize: 1 });
  const { nextPageToken: keys } = await own.admin.listKeys({ pageSize: 1 });
  const common = {
    ...{ runId, runKey, toolset, label, namespace: BOB, project: VICTIM },
    ...{ keyId: spare.key!.id, tokenId, pages: { calls, runs, toolsets, keys } },
  };
  const target = (
    name: string,
    { sessionId = "", nonce = "" }: typeof hello,
    claimId: string,
    attempt = 1,
  ): Target => {
    const callId = `${runId}/${TOOLS.indexOf(name) + 1}`;
    // Whoever has the secret may answer: it is the rest that is known here.
    const task = `${callId}.${attempt}.${"s".repeat(43)}`;
    return { ...common, name, callId, key: keyOf(name), claimId, sessionId, nonce, task };
  };
  return {
    ...{ key, runId, otherRunId, worker, task: `${runId}/4.1.${secret}` },
    targets: [
      target("queued", polled.who, polled.claim.claimId),
      target("polled", polled.who, polled.claim.claimId),
      target("streamed", hello, streamed.claimId),
      target("deferred", deferred.who, deferred.claim.claimId),
      target("asked", polled.who, polled.claim.claimId),
      target("ended", ended.who, ended.claim.claimId),
    ],
    secrets: [
      ...[input, "result-of-the-victim", "call-key-of", label, runKey, toolset, "another-toolset", "spare"],
      ...[runId, otherRunId, spare.key!.id, made.key!.id, tokenId, secret, hello.nonce!],
      ...[polled, deferred, ended].flatMap(({ claim, who }) => [claim.claimId, who.sessionId, who.nonce]),
    ],
  };
}

function keyOf(tool: string): string {
  return `call-key-of-${tool.padEnd(8, "-")}`;
}

/** Claims the one call of a tool by single requests. */
async function poll(workers: ReturnType<typeof clientsOf>["workers"], tool: string) {
  const who = { sessionId: randomUUID(), nonce: randomBytes(16).toString("base64url") };
  const hello = newHello({ ...who, tools: [tool], slots: 1 });
  const { claims } = await workers.claimCalls({ hello, wait: durationFromMs(5_000) });
  const { callId, claimId } = claims[0] ?? expect.fail(`no claim of ${tool}`);
  return { who, claim: { callId, claimId } };
}
