import { CallState, Executor } from "@trunkline/proto/model";
import { v7 as uuidv7 } from "uuid";
import { expect, test } from "vitest";
import { KeyScope } from "@trunkline/proto/admin";
import { reasonOf, refusalOf, useServing } from "./serving.js";

const serving = useServing("root");

/** A harness of a project of its own. */
async function harnessOf(project: string) {
  const { admin } = serving.clients({ key: "root" });
  await admin.createProject({ name: project });
  const { secret } = await admin.createKey({ name: "harness", scopes: [KeyScope.HARNESS], project });
  const clients = serving.clients({ key: secret });
  await clients.toolsets.putToolset({
    id: "asks",
    tools: [{ name: "ask", executor: Executor.CLIENT, outputSchemaJson: '{"type":"number"}' }],
  });
  return clients;
}

/** A deferred call, and a token that answers it. */
async function deferred({ calls, runs }: Awaited<ReturnType<typeof harnessOf>>) {
  const { run } = await runs.createRun({ spec: { toolset: "asks" } });
  const opened = await calls.openCalls({ runId: run!.id, calls: [{ tool: "ask" }] });
  const result = opened.results[0]?.result;
  const callId = result?.case === "opened" ? result.value.callId : expect.fail("not opened");
  const { token } = await calls.issueToken({ call: { callId } });
  const settled = async () => (await calls.getCall({ call: { callId } })).call;
  return { callId, token, secret: token.split(".").at(-1)!, settled };
}

/** Everything of an answer that its client gets, but for the time of day. */
async function wireOf(method: string, token: string, extra: object, type: string) {
  const response = await fetch(`${serving.url}/trunkline.v1.TaskService/${method}`, {
    method: "POST",
    headers: { "content-type": type },
    body: JSON.stringify({ token, ...extra }),
  });
  const headers = [...response.headers].filter(([name]) => name !== "date");
  return JSON.stringify([response.status, headers, await response.text()]);
}

const METHODS = [
  ["GetTask", {}],
  ["CompleteTask", { resultJson: "1" }],
  ["CompleteTask", { resultJson: '"what the schema forbids"' }],
  ["FailTask", { failure: { message: "no" } }],
] as const;

test("the answer to a token that is wrong does not tell whether its call is there, whose it is, or how it stands", async () => {
  const [acme, other] = [await harnessOf("acme"), await harnessOf("other")];
  const [open, foreign, ended] = [await deferred(acme), await deferred(other), await deferred(acme)];
  await serving.tasks.completeTask({ token: ended.token, resultJson: "1" });
  const wrong = "A".repeat(43);
  const nearly = (secret: string): string => (secret.startsWith("A") ? "B" : "A") + secret.slice(1);
  const tokens = {
    "an open call": `${open.callId}.1.${wrong}`,
    "an open call, all but the first character": `${open.callId}.1.${nearly(open.secret)}`,
    "an open call, another call's secret": `${open.callId}.1.${foreign.secret}`,
    "an open call, another attempt": `${open.callId}.2.${open.secret}`,
    "another project's call": `${foreign.callId}.1.${wrong}`,
    "an ended call": `${ended.callId}.1.${wrong}`,
    "an ended call, another attempt": `${ended.callId}.2.${ended.secret}`,
    "a call that is not in its run": `${open.callId.replace(/\/1$/, "/2")}.1.${open.secret}`,
    "a run that is not there": `${uuidv7()}/1.1.${open.secret}`,
  };
  for (const [method, extra] of METHODS) {
    const answers = await Promise.all(
      Object.values(tokens).map((token) => wireOf(method, token, extra, "application/json")),
    );
    expect(answers[0]).toContain("no deferred call is waiting for this token");
    expect(answers).toEqual(answers.map(() => answers[0]));
  }
  expect((await open.settled())?.state).toBe(CallState.DEFERRED);
  expect((await foreign.settled())?.state).toBe(CallState.DEFERRED);
});

test("a token answers one call, in whatever project that is, and nothing once the call has ended", async () => {
  const { tasks } = serving;
  for (const harness of [await harnessOf("acme"), await harnessOf("other")]) {
    const [one, two] = [await deferred(harness), await deferred(harness)];
    expect(await tasks.getTask({ token: one.token })).toMatchObject({ callId: one.callId });
    expect(await tasks.completeTask({ token: one.token, resultJson: "7" })).toMatchObject({
      callId: one.callId,
    });
    expect(await one.settled()).toMatchObject({ state: CallState.SUCCEEDED, resultJson: "7" });
    expect((await two.settled())?.state).toBe(CallState.DEFERRED);
    for (const request of [
      () => tasks.completeTask({ token: one.token, resultJson: "8" }),
      () => tasks.failTask({ token: one.token, failure: { message: "no" } }),
      () => tasks.getTask({ token: one.token }),
    ]) {
      expect(reasonOf((await refusalOf(request())).problem)).toBe("CALL_ENDED");
    }
    expect(await one.settled()).toMatchObject({ state: CallState.SUCCEEDED, resultJson: "7" });
  }
});

test("a token of a run that was ended changes nothing", async () => {
  const harness = await harnessOf("acme");
  const { callId, token, settled } = await deferred(harness);
  await harness.runs.endRun({ runId: callId.split("/")[0]! });
  expect((await settled())?.state).toBe(CallState.CANCELED);
  const late = serving.tasks.completeTask({ token, resultJson: "1" });
  expect(reasonOf((await refusalOf(late)).problem)).toBe("CALL_ENDED");
  expect((await settled())?.state).toBe(CallState.CANCELED);
});

test("no request of this file was a fault of the server", () => {
  expect(serving.faults).toEqual([]);
});
