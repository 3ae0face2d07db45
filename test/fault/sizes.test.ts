import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HostToolError, rawJson, ToolError, type Trunkline } from "@trunkline/sdk";
import { postJson } from "../support/connect-json.js";
import { RawWorker } from "../support/raw-worker.js";
import { useStack } from "../support/stack.js";
import { within } from "../support/until.js";

const stack = useStack();

const KIB = 1024;
const MIB = 1024 * KIB;
const LIMIT = MIB;
const MESSAGE_LIMIT = 8 * KIB;
const DATA_LIMIT = 64 * KIB;
const QUICKLY_MS = 5_000;

/** A text of so many bytes as JSON, quotes included. */
const jsonOf = (bytes: number): string => `"${"x".repeat(bytes - 2)}"`;
/** As many characters, of three bytes each. */
const WIDE = "水".repeat(2_667);

/** Around what a NOTIFY can carry, and around the limit. */
const GOOD = [7 * KIB, 7_999, 8_000, LIMIT - 1, LIMIT];
const BAD = [LIMIT + 1, 5 * MIB, 50 * MIB];

let client: Trunkline;
/** What the tool `does` does next. */
let act: () => unknown;

beforeAll(() => {
  client = stack.newClient();
  client.worker({
    tools: { echo: (_, { inputJson }) => rawJson(inputJson), does: () => act() },
    onError: () => undefined,
  });
});
afterAll(() => client.close());

const failureOf = (call: Promise<unknown>): Promise<unknown> =>
  within(
    "the call has failed",
    call.then(
      () => expect.fail("the call did not fail"),
      (error: unknown) => error,
    ),
    QUICKLY_MS,
  );

/** What a call fails with whose handler does this. */
async function failing(handler: () => unknown): Promise<unknown> {
  act = handler;
  const run = await client.runs.create();
  const error = await failureOf(run.call("does"));
  expect(error).toBeInstanceOf(ToolError);
  const { attempt, spent } = await client.calls.get((error as ToolError).callId);
  expect([attempt, spent]).toEqual([1, 1]);
  return error;
}

const throwing = (message: string, data?: unknown) => () => {
  throw new HostToolError(message, data === undefined ? {} : { data });
};

async function deferred(): Promise<{ callId: string; token: string }> {
  const run = await client.runs.create();
  const { promise, resolve } = withResolvers<string>();
  const tool = `defers_${run.id}`;
  await using other = stack.newClient();
  other.worker({ tools: { [tool]: async (_, { defer }) => resolve((await defer()).token) } });
  const { id } = await run.open(tool);
  return { callId: id, token: await promise };
}

function withResolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((settle) => (resolve = settle));
  return { promise, resolve };
}

describe("B23: up to the limit", () => {
  test.each(GOOD)("input and result of %i bytes come through at once", async (bytes) => {
    const run = await client.runs.create();
    const call = await run.open("echo", rawJson(jsonOf(bytes)));
    const { resultJson } = await within("the outcome", call.outcome(), QUICKLY_MS);
    expect(resultJson === jsonOf(bytes)).toBe(true);
  });

  test.each(GOOD)("a settlement by id and a completion by token of %i bytes are taken", async (bytes) => {
    const result = rawJson(jsonOf(bytes));
    const byId = await deferred();
    await client.calls.settle(byId.callId, { type: "tool.result", result });
    const byToken = await deferred();
    await client.tasks.complete(byToken.token, result);
    for (const { callId } of [byId, byToken]) {
      const { resultJson } = await client.calls.get(callId);
      expect(resultJson === jsonOf(bytes)).toBe(true);
    }
  });

  test("2,667 characters of three bytes, one more than a NOTIFY takes, come through every place", async () => {
    const run = await client.runs.create();
    expect(await run.call("echo", { [WIDE]: WIDE })).toEqual({ [WIDE]: WIDE });
    expect(await failing(throwing(WIDE, { [WIDE]: WIDE }))).toMatchObject({
      message: WIDE,
      data: { [WIDE]: WIDE },
    });
  });

  test.each([7 * KIB, 7_999, 8_000, MESSAGE_LIMIT])(
    "a failure message of %i bytes is kept whole",
    async (bytes) => {
      const message = "m".repeat(bytes);
      expect(await failing(throwing(message))).toMatchObject({ message });
      const { callId, token } = await deferred();
      await client.tasks.fail(token, { message });
      expect(await client.calls.get(callId)).toMatchObject({ error: { message } });
    },
  );

  test.each([8_000, DATA_LIMIT - 1, DATA_LIMIT])("failure data of %i bytes is kept whole", async (bytes) => {
    const data: unknown = JSON.parse(jsonOf(bytes));
    expect(await failing(throwing("has data", data))).toMatchObject({ message: "has data", data });
    const { callId, token } = await deferred();
    await client.tasks.fail(token, { message: "has data", data });
    expect(await client.calls.get(callId)).toMatchObject({ error: { data } });
  });

  test("32 labels with the longest names and values, and the longest names of tool and key, are kept", async () => {
    const name = (at: number): string => `${at}`.padStart(64, "n");
    const labels = Object.fromEntries(Array.from({ length: 32 }, (_, at) => [name(at), "v".repeat(256)]));
    const run = await client.runs.create({ labels, namespace: "u".repeat(256) });
    expect(await client.runs.get(run.id)).toMatchObject({ labels, namespace: "u".repeat(256) });
    const call = await run.open("t".repeat(128), null, { key: "k".repeat(256) });
    expect(await client.calls.get({ run: run.id, key: "k".repeat(256) })).toMatchObject({ id: call.id });
  });
});

describe("B23: above the limit", () => {
  const tooLong = (bytes: number): object => ({
    reason: "LIMIT_EXCEEDED",
    metadata: { limit: "bytes", size: String(bytes), max: String(LIMIT) },
  });

  test.each(BAD)("a result of %i bytes fails its call by naming size and limit, at once", async (bytes) => {
    const named = { kind: "oversized", message: expect.stringContaining(`${bytes} bytes`) };
    expect(await failing(() => rawJson(jsonOf(bytes)))).toMatchObject(named);
    const value = "x".repeat(bytes - 2);
    const shown = bytes > 16 * LIMIT ? /over \d+ bytes/ : new RegExp(`${bytes} bytes`);
    expect(await failing(() => value)).toMatchObject({ ...named, message: expect.stringMatching(shown) });
    const run = await client.runs.create();
    expect(await run.call("echo", "the worker goes on")).toBe("the worker goes on");
  });

  test.each(BAD)("input of %i bytes is refused by the SDK, and opens nothing", async (bytes) => {
    const run = await client.runs.create();
    await expect(run.call("echo", rawJson(jsonOf(bytes)))).rejects.toMatchObject(tooLong(bytes));
    expect(await client.runs.get(run.id)).toMatchObject({ calls: 0 });
  });

  test.each(BAD)(
    "a settlement and a completion of %i bytes are refused, and the call stays open",
    async (bytes) => {
      const { callId, token } = await deferred();
      const result = rawJson(jsonOf(bytes));
      await expect(client.calls.settle(callId, { type: "tool.result", result })).rejects.toMatchObject(
        tooLong(bytes),
      );
      await expect(client.tasks.complete(token, result)).rejects.toMatchObject(tooLong(bytes));
      expect(await client.calls.get(callId)).toMatchObject({ state: "deferred" });
      await client.tasks.complete(token, "small");
    },
  );

  test.each(BAD)("input of %i bytes is refused by Connect and JSON, at once and for good", async (bytes) => {
    const { id: runId } = await client.runs.create();
    const calls = [{ tool: "echo", inputJson: jsonOf(bytes) }, { tool: "echo" }];
    const answer = await postJson(stack.server.url, "CallService/OpenCalls", { runId, calls });
    if (bytes > 4 * MIB) {
      // More than a frame: the request as a whole.
      expect(answer).toMatchObject({ status: 429, body: { code: "resource_exhausted" } });
      expect(answer.body.message).toMatch(/\d{7}/);
    } else {
      expect(answer.body.results).toMatchObject([
        { problem: { reason: "REASON_LIMIT_EXCEEDED", code: 3, metadata: { max: String(LIMIT) } } },
        { opened: {} },
      ]);
    }
  });

  test("a failure message is cut, and failure data left out with a word, rather than the failure lost", async () => {
    const cut = (await failing(throwing("m".repeat(MESSAGE_LIMIT + 1)))) as ToolError;
    expect(Buffer.byteLength(cut.message)).toBe(MESSAGE_LIMIT);
    expect(await failing(throwing("kept", "d".repeat(DATA_LIMIT)))).toMatchObject({
      message: expect.stringMatching(/^kept \(its data was dropped: data has 65538 bytes; allowed/),
      data: undefined,
    });
    const { token } = await deferred();
    const long = { message: "m".repeat(MESSAGE_LIMIT + 1) };
    await expect(client.tasks.fail(token, long)).rejects.toMatchObject({ reason: "LIMIT_EXCEEDED" });
  });

  test("100 labels, and names of 10 KB, are refused by name", async () => {
    const labels = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`label_${at}`, "v"]));
    const refused = { reason: "LIMIT_EXCEEDED", message: expect.stringContaining("allowed") };
    await expect(client.runs.create({ labels })).rejects.toMatchObject(refused);
    const long = "n".repeat(10_000);
    await expect(client.runs.create({ labels: { [long]: "v" } })).rejects.toMatchObject(refused);
    await expect(client.runs.create({ namespace: long })).rejects.toMatchObject(refused);
    const run = await client.runs.create();
    await expect(run.call(long)).rejects.toMatchObject(refused);
    await expect(run.call("echo", null, { key: long })).rejects.toMatchObject(refused);
    await expect(client.calls.get(long)).rejects.toMatchObject({ reason: "NOT_FOUND" });
    await expect(client.tasks.complete(long, 1)).rejects.toMatchObject({ reason: "TOKEN_INVALID" });
  });

  test("an answer of a worker that checks nothing fails its call; one above a frame ends its stream alone", async () => {
    const run = await client.runs.create();
    await using raw = await RawWorker.connect(stack.server.url, ["raw"]);
    const call = await run.open("raw", null, { policy: { heartbeatTimeout: "1s", detachGrace: "1s" } });
    const [claim] = await raw.some("claims", 1);
    const answer = (bytes: number): Parameters<RawWorker["send"]>[0] => ({
      answers: [
        {
          ...{ claimId: claim?.claimId ?? "", callId: call.id },
          outcome: { case: "resultJson", value: jsonOf(bytes) },
        },
      ],
    });
    raw.send(answer(LIMIT + 1));
    const outcome = await within("the oversized answer ends its call", call.outcome(), QUICKLY_MS);
    expect(outcome).toMatchObject({ state: "failed", attempt: 1, error: { kind: "oversized" } });
    raw.send(answer(5 * MIB));
    expect(String(await raw.ended)).toContain("resource_exhausted");
    expect(await run.call("echo", "others go on")).toBe("others go on");
  });
});

test("B23: nothing of this was a fault of the server", () => {
  expect(stack.server.faults).toEqual([]);
});
