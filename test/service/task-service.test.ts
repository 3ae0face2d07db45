import { Code } from "@connectrpc/connect";
import { CallState, Executor, FailureKind } from "@trunkline/proto/model";
import { expect, test } from "vitest";
import { toDuration } from "../../server/src/service/convert.js";
import { reasonOf, refusalOf, useServing } from "./serving.js";

const serving = useServing("root");
const admin = (): ReturnType<typeof serving.clients> => serving.clients({ key: "root" });

/** A deferred call, and a token that answers it. */
async function deferred(outputSchemaJson = ""): Promise<{ readonly callId: string; readonly token: string }> {
  const { calls, runs, toolsets } = admin();
  const id = outputSchemaJson === "" ? "any" : "typed";
  const backoffInitial = toDuration(3_600_000);
  const policy = { maxAttempts: 2, backoffInitial, backoffMax: backoffInitial };
  await toolsets.putToolset({
    id,
    tools: [{ name: "ask", executor: Executor.CLIENT, outputSchemaJson, policy }],
  });
  const { run } = await runs.createRun({ spec: { toolset: id, namespace: "u1" } });
  const opened = await calls.openCalls({
    runId: run?.id ?? "",
    calls: [{ tool: "ask", inputJson: '{"q":1.0}' }],
  });
  const result = opened.results[0]?.result;
  const callId = result?.case === "opened" ? result.value.callId : expect.fail("not opened");
  return { callId, token: (await calls.issueToken({ call: { callId } })).token };
}

async function callOf(callId: string) {
  return (await admin().calls.getCall({ call: { callId } })).call ?? expect.fail("no call");
}

test("the token is all that is needed: no key", async () => {
  const { callId, token } = await deferred();
  expect(await serving.tasks.getTask({ token })).toMatchObject({
    callId,
    tool: "ask",
    inputJson: '{"q":1.0}',
    namespace: "u1",
  });
  expect(await serving.tasks.completeTask({ token, resultJson: '{"a": 1}' })).toMatchObject({ callId });
  expect(await callOf(callId)).toMatchObject({ state: CallState.SUCCEEDED, resultJson: '{"a": 1}' });
});

test("the same completion again is OK, and another one is refused (I1)", async () => {
  const { callId, token } = await deferred();
  await serving.tasks.completeTask({ token, resultJson: "1" });
  await serving.tasks.completeTask({ token, resultJson: "1" });
  const error = await refusalOf(serving.tasks.completeTask({ token, resultJson: "2" }));
  expect(reasonOf(error.problem)).toBe("CALL_ENDED");
  expect((await callOf(callId)).resultJson).toBe("1");
  expect(reasonOf((await refusalOf(serving.tasks.getTask({ token }))).problem)).toBe("CALL_ENDED");
});

test("an empty result is null", async () => {
  const { callId, token } = await deferred();
  await serving.tasks.completeTask({ token });
  expect((await callOf(callId)).resultJson).toBe("null");
});

test("every earlier token of the attempt stays good", async () => {
  const { callId, token } = await deferred();
  await admin().calls.issueToken({ call: { callId } });
  expect(await serving.tasks.completeTask({ token, resultJson: "1" })).toMatchObject({ callId });
});

test("FailTask ends the call as its tool's failure", async () => {
  const { callId, token } = await deferred();
  const failure = { message: "declined", dataJson: '{"code": 7}', kind: FailureKind.WORKER_LOST };
  expect(await serving.tasks.failTask({ token, failure })).toMatchObject({ callId, state: CallState.FAILED });
  expect((await callOf(callId)).failure).toMatchObject({
    kind: FailureKind.TOOL,
    message: "declined",
    dataJson: '{"code": 7}',
    outcomeUnknown: false,
  });
});

test("a token of an attempt that was replaced says so, and changes nothing (B03)", async () => {
  const { callId, token } = await deferred();
  const failed = await serving.tasks.failTask({ token, failure: { message: "later", retryable: true } });
  expect(failed.state).toBe(CallState.DEFERRED);
  for (const error of await Promise.all([
    refusalOf(serving.tasks.completeTask({ token, resultJson: "1" })),
    refusalOf(serving.tasks.failTask({ token, failure: { message: "later", retryable: true } })),
    refusalOf(serving.tasks.getTask({ token })),
  ])) {
    expect([error.code, reasonOf(error.problem)]).toEqual([Code.FailedPrecondition, "STALE_ATTEMPT"]);
  }
  expect(await callOf(callId)).toMatchObject({ state: CallState.DEFERRED, attempt: 2 });
});

test("whatever matches no deferred call gets one and the same answer (S16, B16)", async () => {
  const { callId, token } = await deferred();
  const answers = new Set<string>();
  const wrong = [
    "",
    "bogus",
    `${callId}.1.${"A".repeat(43)}`,
    `${callId}.2.${token.split(".").at(-1) ?? ""}`,
    `0192d4e0-7b1a-7c3e-9f4d-2a6b8c0d1e2f/1.1.${"A".repeat(43)}`,
    `${token}x`,
  ];
  for (const bad of wrong) {
    for (const { code, rawMessage, problem } of await Promise.all([
      refusalOf(serving.tasks.getTask({ token: bad })),
      refusalOf(serving.tasks.completeTask({ token: bad, resultJson: "1" })),
      refusalOf(serving.tasks.failTask({ token: bad, failure: { message: "no" } })),
    ])) {
      answers.add(JSON.stringify([Code[code], reasonOf(problem), rawMessage, problem.metadata]));
    }
  }
  expect([...answers]).toEqual([
    '["NotFound","TOKEN_INVALID","no deferred call is waiting for this token",{}]',
  ]);
});

test("a bad answer is refused by its field, and the token stays good", async () => {
  const { callId, token } = await deferred('{"type":"number"}');
  const refused = async (request: Promise<unknown>): Promise<[string, string | undefined]> => {
    const { problem } = await refusalOf(request);
    return [reasonOf(problem), problem.metadata["field"]];
  };
  const { tasks } = serving;
  expect(await refused(tasks.completeTask({ token, resultJson: "{" }))).toEqual([
    "INVALID_JSON",
    "result_json",
  ]);
  expect(await refused(tasks.completeTask({ token, resultJson: '"x"' }))).toEqual([
    "SCHEMA_VIOLATION",
    "result_json",
  ]);
  const large = `"${"x".repeat(1024 * 1024)}"`;
  expect(await refused(tasks.completeTask({ token, resultJson: large }))).toEqual([
    "LIMIT_EXCEEDED",
    "result_json",
  ]);
  expect(await refused(tasks.failTask({ token }))).toEqual(["INVALID_FIELD", "failure"]);
  const message = "m".repeat(8 * 1024 + 1);
  expect(await refused(tasks.failTask({ token, failure: { message } }))).toEqual([
    "LIMIT_EXCEEDED",
    "failure.message",
  ]);
  expect((await callOf(callId)).state).toBe(CallState.DEFERRED);
  await tasks.completeTask({ token, resultJson: "1" });
});

test("no request of this file was a fault of the server", () => {
  expect(serving.faults).toEqual([]);
});
