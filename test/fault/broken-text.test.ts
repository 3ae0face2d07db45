import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HostToolError, rawJson, type Outcome, type Trunkline, type Worker } from "@trunkline/sdk";
import { postJson, type JsonAnswer } from "../support/connect-json.js";
import { RawWorker } from "../support/raw-worker.js";
import { useStack } from "../support/stack.js";
import { within } from "../support/until.js";

const stack = useStack();

const NUL = "cut \0 here";
const HIGH = "cut emoji \ud83d";
const LOW = "\ude00 cut emoji";
const EMOJI = "whole emoji 😀";
/** The six characters of an escape, not what it stands for. */
const ESCAPE_TEXT = String.raw`the text \u0000`;

/** Texts that are to be stored unchanged. */
const CONTROLS = [
  ["a whole emoji", EMOJI],
  ["the text of a NUL escape", ESCAPE_TEXT],
] as const;

/** JSON texts that are valid, and whose values no UTF-8 text can hold or no `jsonb` takes. */
const ESCAPES = [
  ["a NUL escape", String.raw`{"a\u0000b":"\u0000"}`],
  ["an escaped high surrogate", String.raw`{"x":"\ud83d"}`],
  ["an escaped low surrogate", String.raw`{"\ude00":1}`],
] as const;

/** What no protobuf string can carry. */
const HALVES = [
  ["half an emoji", HIGH],
  ["the other half", LOW],
] as const;

const NUL_AND_HALVES = [["a NUL", NUL], ...HALVES] as const;

const QUICKLY_MS = 5_000;

let worker: Worker;
let errors: unknown[] = [];
/** What the next call of the tool `does` does. */
let act: () => unknown;

beforeAll(() => {
  worker = stack.client.worker({
    tools: { echo: (_, { inputJson }) => rawJson(inputJson), does: () => act() },
    onError: (error) => errors.push(error),
  });
});
afterAll(() => worker.stop());

/** How a call ends whose handler does this; it is to be soon, and after one attempt. */
async function does(handler: () => unknown): Promise<Outcome> {
  act = handler;
  errors = [];
  const run = await stack.client.runs.create();
  const call = await run.open("does");
  const outcome = await within("a bad answer ends its call", call.outcome(), QUICKLY_MS);
  expect(await call.status()).toMatchObject({ attempt: 1, spent: 1 });
  return outcome;
}

const fail = (error: Error) => () => {
  throw error;
};

describe("B06: by the SDK over gRPC", () => {
  test.each(CONTROLS)("%s comes back from every place as it went", async (_, text) => {
    const client: Trunkline = stack.client;
    const run = await client.runs.create({ labels: { text } });
    expect((await client.runs.get(run.id)).labels).toEqual({ text });
    expect(await run.call("echo", { [text]: text })).toEqual({ [text]: text });
    expect(await does(() => text)).toMatchObject({ result: text });
    expect(await does(fail(new Error(text)))).toMatchObject({ error: { message: `Error: ${text}` } });
    const said = await does(fail(new HostToolError(text, { data: { [text]: text } })));
    expect(said).toMatchObject({ error: { message: text, data: { [text]: text } } });
  });

  test("a NUL in input, result and failure data is kept as it was", async () => {
    const run = await stack.client.runs.create();
    expect(await run.call("echo", { [NUL]: NUL })).toEqual({ [NUL]: NUL });
    expect(await does(() => NUL)).toMatchObject({ result: NUL });
    const said = await does(fail(new HostToolError("data", { data: { [NUL]: NUL } })));
    expect(said).toMatchObject({ error: { message: "data", data: { [NUL]: NUL } } });
  });

  test.each(ESCAPES)(
    "JSON text with %s is kept, character by character, as input and result",
    async (_, text) => {
      const run = await stack.client.runs.create();
      const call = await run.open("echo", rawJson(text));
      expect(await call.outcome()).toMatchObject({ state: "succeeded", resultJson: text });
      expect((await call.status()).inputJson).toBe(text);
      const said = await does(fail(new HostToolError("data", { data: rawJson(text) })));
      expect(said).toMatchObject({ error: { dataJson: text } });
    },
  );

  test.each(NUL_AND_HALVES)(
    "%s in a failure message is replaced, and the call fails with the rest of it",
    async (_, text) => {
      const mended = text.toWellFormed().replaceAll("\0", "\ufffd");
      expect(await does(fail(new Error(text)))).toMatchObject({ error: { message: `Error: ${mended}` } });
      expect(await does(fail(new HostToolError(text)))).toMatchObject({ error: { message: mended } });
    },
  );

  test.each(HALVES)(
    "%s in a value is refused where it is given, or ends the call by saying so",
    async (_, text) => {
      const run = await stack.client.runs.create();
      await expect(run.call("echo", { x: text })).rejects.toMatchObject({ reason: "INVALID_JSON" });
      expect(await does(() => ({ x: text }))).toMatchObject({
        error: { kind: "invalid_answer", message: expect.stringContaining("result.x") },
      });
      const said = await does(fail(new HostToolError("kept", { data: { [text]: 1 } })));
      expect(said).toMatchObject({
        error: { message: expect.stringMatching(/^kept \(its data was dropped/) },
      });
    },
  );

  test.each(NUL_AND_HALVES)("%s in a label makes no run", async (_, text) => {
    const { runs } = stack.client;
    await expect(runs.create({ labels: { name: text } })).rejects.toMatchObject({ reason: "INVALID_FIELD" });
    await expect(runs.create({ labels: { [text]: "" } })).rejects.toMatchObject({ reason: "INVALID_FIELD" });
  });

  test.each(HALVES)(
    "%s in a name or a message of the harness's side is refused, not bent",
    async (_, half) => {
      const { calls, runs } = stack.client;
      const run = await runs.create();
      const call = await run.open("settled_by_hand");
      const refused = {
        reason: "INVALID_FIELD",
        message: expect.stringContaining("half of a surrogate pair"),
      };
      await expect(runs.create({ key: half })).rejects.toMatchObject(refused);
      await expect(runs.create({ namespace: half })).rejects.toMatchObject(refused);
      await expect(run.open("echo", null, { key: half })).rejects.toMatchObject(refused);
      await expect(calls.get({ run: run.id, key: half })).rejects.toMatchObject(refused);
      await expect(calls.settle(call.id, { type: "tool.error", error: half })).rejects.toMatchObject(refused);
      expect(await call.status()).toMatchObject({ state: "queued" });
    },
  );
});

const batchOfTen = (runId: string, fifth: string): Promise<JsonAnswer> => {
  const calls = Array.from({ length: 10 }, (_, at) => ({
    tool: "echo",
    inputJson: at === 4 ? fifth : `${at}`,
  }));
  return postJson(stack.server.url, "CallService/OpenCalls", { runId, calls });
};

const settle = (callId: string, settlement: object): Promise<JsonAnswer> =>
  postJson(stack.server.url, "CallService/SettleCalls", { items: [{ call: { callId }, settlement }] });

/** What a settlement came to, of a request that was understood. */
const settled = async (callId: string, settlement: object): Promise<object> => {
  const { status, body } = await settle(callId, settlement);
  expect(status).toBe(200);
  return body.results[0];
};

const unserved = async (): Promise<string> => {
  const run = await stack.client.runs.create();
  return (await run.open("settled_by_hand")).id;
};

/** Connect's own refusal of what is no message at all. */
const NO_MESSAGE = { status: 400, body: { code: "invalid_argument" } };

describe("B06: by Connect and JSON", () => {
  test("of a batch of 10 calls only number 5, which has a raw NUL, is refused (I11)", async () => {
    const { id } = await stack.client.runs.create();
    const results: readonly object[] = (await batchOfTen(id, `"${NUL}"`)).body.results;
    expect(results.map((result) => Object.keys(result)[0])).toEqual(
      Array.from({ length: 10 }, (_, at) => (at === 4 ? "problem" : "opened")),
    );
    expect(results[4]).toMatchObject({ problem: { reason: "REASON_INVALID_JSON", code: 3 } });
  });

  test.each(HALVES)("%s in one of 10 calls makes the request no message, and opens none", async (_, half) => {
    const { id } = await stack.client.runs.create();
    expect(await batchOfTen(id, `"${half}"`)).toMatchObject(NO_MESSAGE);
    expect(await stack.client.runs.get(id)).toMatchObject({ calls: 0 });
  });

  test.each(ESCAPES)("a settlement with %s is stored as it is", async (_, resultJson) => {
    const callId = await unserved();
    expect(await settled(callId, { resultJson })).toMatchObject({ state: "CALL_STATE_SUCCEEDED" });
    expect((await stack.client.calls.get(callId)).resultJson).toBe(resultJson);
  });

  test("a settlement with a raw NUL in JSON is refused, and the call can still be settled", async () => {
    const callId = await unserved();
    const invalid = { problem: { reason: "REASON_INVALID_JSON", code: 3 } };
    expect(await settled(callId, { resultJson: `"${NUL}"` })).toMatchObject(invalid);
    const failure = { message: "data", dataJson: `{"${NUL}":1}` };
    expect(await settled(callId, { failure })).toMatchObject(invalid);
    expect(await stack.client.calls.get(callId)).toMatchObject({ state: "queued" });
    expect(await settled(callId, { failure: { message: NUL } })).toMatchObject({
      state: "CALL_STATE_FAILED",
    });
    expect(await stack.client.calls.get(callId)).toMatchObject({ error: { message: NUL } });
  });

  test.each(HALVES)("a settlement with %s is refused, and the call can still be settled", async (_, half) => {
    const callId = await unserved();
    expect(await settle(callId, { resultJson: `"${half}"` })).toMatchObject(NO_MESSAGE);
    expect(await settle(callId, { failure: { message: half } })).toMatchObject(NO_MESSAGE);
    const failure = { message: "data", dataJson: `{"${half}":1}` };
    expect(await settle(callId, { failure })).toMatchObject(NO_MESSAGE);
    expect(await stack.client.calls.get(callId)).toMatchObject({ state: "queued" });
    expect(await settled(callId, { resultJson: "null" })).toMatchObject({ state: "CALL_STATE_SUCCEEDED" });
  });

  test.each(NUL_AND_HALVES)("a label with %s makes no run", async (_, broken) => {
    for (const labels of [{ name: broken }, { [broken]: "value" }]) {
      const answer = await postJson(stack.server.url, "RunService/CreateRun", { spec: { labels } });
      expect(answer).toMatchObject(NO_MESSAGE);
    }
  });
});

describe("B06: by a worker that checks nothing", () => {
  test("of a batch of 10 answers only number 5 fails its call, at once; the others are stored", async () => {
    await using raw = await RawWorker.connect(stack.server.url, ["raw"]);
    const run = await stack.client.runs.create();
    const calls = await Promise.all(Array.from({ length: 10 }, (_, at) => run.open("raw", at)));
    const claims = await raw.some("claims", 10);
    const bad = claims[4]?.callId ?? "";
    raw.send({
      answers: claims.map(({ claimId, callId, inputJson }) => ({
        ...{ claimId, callId },
        outcome: { case: "resultJson", value: callId === bad ? `"${NUL}"` : inputJson },
      })),
    });
    const outcomes = await within(
      "all ten have ended",
      Promise.all(calls.map((call) => call.outcome())),
      QUICKLY_MS,
    );
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject(
        outcome.callId === bad
          ? { state: "failed", attempt: 1, error: { kind: "invalid_answer" } }
          : { state: "succeeded", attempt: 1 },
      );
    }
    expect((await raw.some("acks", 10)).map(({ problem }) => problem)).toEqual(Array(10).fill(undefined));
  });

  test("a failure with broken message and data fails its call", async () => {
    await using raw = await RawWorker.connect(stack.server.url, ["raw_failure"]);
    const run = await stack.client.runs.create();
    const call = await run.open("raw_failure");
    const [claim] = await raw.some("claims", 1);
    raw.send({
      answers: [
        {
          claimId: claim?.claimId ?? "",
          callId: call.id,
          outcome: { case: "failure", value: { message: NUL, dataJson: `{"${NUL}":1}` } },
        },
      ],
    });
    const outcome = await within("the call has ended", call.outcome(), QUICKLY_MS);
    expect(outcome).toMatchObject({ state: "failed", attempt: 1, error: { kind: "invalid_answer" } });
    expect(outcome.error?.message).toContain(NUL);
  });
});

test("B06: nothing of this was a fault of the server", () => {
  expect(stack.server.faults).toEqual([]);
});
