import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { DescService } from "@bufbuild/protobuf";
import { AdminService } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { Health } from "@trunkline/proto/health";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { WorkerService } from "@trunkline/proto/worker";
import { beforeAll, describe, expect, test } from "vitest";
import type { JsonMessage } from "../support/connect-json.js";
import { useNode } from "./node.js";

const it = useNode();
const run = promisify(execFile);

const SERVICES = [AdminService, CallService, Health, RunService, TaskService, ToolsetService, WorkerService];
/** Numbers that no parser of JavaScript keeps, and space that no writer makes. */
const EXACT = '{ "n": 12345678901234567890.0123456789,\t"m": [1e400, -0.0] }';

const seen = new Set<string>();

/** Calls an RPC with curl, over HTTP/1.1 and with JSON; fails the test when its status is another one. */
async function curl(service: DescService, method: string, body: object, status = 200): Promise<JsonMessage> {
  const { name } = service.methods.find((each) => each.name === method) ?? expect.fail(`no ${method}`);
  seen.add(`${service.name}/${name}`);
  const { stdout } = await run("curl", [
    ...["--silent", "--show-error", "--http1.1", "--write-out", "\n%{http_version} %{http_code}"],
    ...["-H", "Content-Type: application/json", "-d", JSON.stringify(body)],
    `${it.node.url}/${service.typeName}/${name}`,
  ]);
  const end = stdout.lastIndexOf("\n");
  expect(stdout.slice(end + 1), `${name}: ${stdout}`).toBe(`1.1 ${status}`);
  return JSON.parse(stdout.slice(0, end));
}

const worker = { sessionId: "curl", nonce: "0123456789abcdef" };
const hello = { ...worker, worker: "curl", tools: ["crm.find_customer", "ask_user"], slots: 1, number: "1" };

describe("every unary RPC, by curl with JSON over HTTP/1.1,", () => {
  let runId: string;

  beforeAll(async () => {
    const tools = [
      { name: "crm.find_customer", policy: { attemptTimeout: "30s" } },
      { name: "ask_user" },
      { name: "confirm", executor: "EXECUTOR_CLIENT" },
    ];
    const { toolset } = await curl(ToolsetService, "PutToolset", { id: "crm", tools });
    expect(toolset.version).toBe(1);
    const made = await curl(RunService, "CreateRun", {
      spec: { toolset: "crm", labels: { team: "a" }, ttl: "3600s" },
    });
    runId = made.run.id;
  });

  /** Opens a call. */
  async function open(tool: string, inputJson = "null"): Promise<string> {
    const { results } = await curl(CallService, "OpenCalls", {
      runId,
      calls: [{ tool, inputJson, turn: 1 }],
    });
    return results[0].opened.callId;
  }

  /** Takes a call up, as a worker with one free slot; the claim that it gets. */
  async function claim(): Promise<JsonMessage> {
    const { claims } = await curl(WorkerService, "ClaimCalls", { hello, wait: "5s" });
    return claims[0];
  }

  test("opens a call, works it and waits for it, with its texts digit for digit", async () => {
    const callId = await open("crm.find_customer", EXACT);
    const { claimId, inputJson } = await claim();
    expect(inputJson).toBe(EXACT);
    const held = [{ callId, claimId }];
    await curl(WorkerService, "Heartbeat", {
      ...worker,
      claims: held,
      progress: [{ claimId, progressJson: EXACT }],
    });
    const answers = [{ callId, claimId, resultJson: EXACT }];
    expect(await curl(WorkerService, "AnswerCalls", { ...worker, answers })).toEqual({ acks: [{ claimId }] });
    const waited = await curl(CallService, "WaitCalls", { calls: [{ callId }], timeout: "10s" });
    expect(waited).toMatchObject({ settled: true, outcomes: [{ callId, resultJson: EXACT }] });
    const { call } = await curl(CallService, "GetCall", { call: { callId } });
    expect(call).toMatchObject({
      state: "CALL_STATE_SUCCEEDED",
      inputJson: EXACT,
      resultJson: EXACT,
      turn: 1,
    });
  });

  test("defers a call, and answers it by its token", async () => {
    for (const [method, answer] of [
      ["CompleteTask", { resultJson: EXACT }],
      ["FailTask", { failure: { message: "the user is away" } }],
    ] as const) {
      const callId = await open("ask_user", EXACT);
      const { claimId } = await claim();
      const deferral = { claimId, callId, timeout: "60s" };
      const { ack } = await curl(WorkerService, "DeferCall", { ...worker, deferral });
      const { token } = ack.deferred;
      expect(await curl(TaskService, "GetTask", { token })).toMatchObject({ callId, inputJson: EXACT });
      const issued = await curl(CallService, "IssueToken", { call: { callId } });
      expect(issued.token).not.toBe(token);
      expect(await curl(TaskService, method, { token, ...answer })).toMatchObject({ callId });
    }
  });

  test("hands a claim back that was not started", async () => {
    const callId = await open("crm.find_customer");
    const { claimId } = await claim();
    const { acks } = await curl(WorkerService, "ReleaseCalls", {
      ...worker,
      releases: [{ callId, claimId }],
    });
    expect(acks).toEqual([{ claimId }]);
    const queued = await curl(CallService, "ListCalls", { runId, states: ["CALL_STATE_QUEUED"] });
    expect(queued.calls).toMatchObject([{ id: callId }]);
    expect(queued.calls[0]).not.toHaveProperty("spent");
    expect(await curl(CallService, "CancelCall", { call: { callId } })).toMatchObject({
      state: "CALL_STATE_CANCELED",
    });
  });

  test("settles a call from outside", async () => {
    const callId = await open("confirm");
    const items = [{ call: { callId }, attempt: 1, settlement: { resultJson: EXACT } }];
    const { results } = await curl(CallService, "SettleCalls", { items });
    expect(results).toEqual([{ callId, state: "CALL_STATE_SUCCEEDED" }]);
  });

  test("shows what there is, and ends it", async () => {
    expect(await curl(Health, "Check", {})).toEqual({ status: "SERVING" });
    expect((await curl(RunService, "GetRun", { runId })).run.labels).toEqual({ team: "a" });
    expect((await curl(RunService, "ListRuns", { labels: { team: "a" }, pageSize: 1 })).runs).toHaveLength(1);
    expect((await curl(ToolsetService, "GetToolset", { id: "crm" })).toolset.tools).toHaveLength(3);
    expect((await curl(ToolsetService, "ListToolsets", {})).toolsets).toHaveLength(1);
    expect((await curl(RunService, "EndRun", { runId })).run.state).toBe("RUN_STATE_ENDED");
    expect(await curl(ToolsetService, "DeleteToolset", { id: "crm" })).toEqual({});
  });

  test("makes, lists, rotates and revokes what lets people in", async () => {
    await curl(AdminService, "CreateProject", { name: "acme" });
    expect((await curl(AdminService, "ListProjects", {})).projects).toMatchObject([
      { name: "acme" },
      { name: "default" },
    ]);
    const { key, secret } = await curl(AdminService, "CreateKey", {
      name: "curl",
      scopes: ["KEY_SCOPE_HARNESS"],
      project: "acme",
    });
    const named = { keyId: key.id, project: "acme" };
    expect((await curl(AdminService, "RotateKey", { ...named, grace: "60s" })).secret).not.toBe(secret);
    expect((await curl(AdminService, "RevokeKey", named)).key.revokedAt).toBeDefined();
    expect((await curl(AdminService, "ListKeys", { project: "acme" })).keys).toHaveLength(1);
    const token = await curl(AdminService, "CreateToken", { namespace: "ada", scopes: ["KEY_SCOPE_WORKER"] });
    expect(await curl(AdminService, "RevokeToken", { tokenId: token.tokenId })).toEqual({});
    expect(await curl(AdminService, "RotateSigningKey", {})).toEqual({});
  });

  test.each(["ListWorkers", "GetStats"])("says of %s that it is not built yet", async (name) => {
    expect(await curl(AdminService, name, {}, 501)).toMatchObject({ code: "unimplemented" });
  });

  test("was called, and none was a fault of the server", () => {
    const unary = SERVICES.flatMap((service) =>
      service.methods
        .filter(({ methodKind }) => methodKind === "unary")
        .map(({ name }) => `${service.name}/${name}`),
    );
    expect([...seen].sort()).toEqual(unary.sort());
    expect(it.node.faults).toEqual([]);
  });
});

test("an error over plain HTTP says its code, its message and its reason in words", async () => {
  const error = await curl(CallService, "GetCall", { call: { callId: "nothing" } }, 404);
  expect(error).toMatchObject({
    code: "not_found",
    message: 'there is no call "nothing"',
    details: [{ type: "trunkline.v1.Problem", debug: { code: 5, reason: "REASON_NOT_FOUND" } }],
  });
});
