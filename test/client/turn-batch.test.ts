import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { OpenCallSchema, type WaitCallsRequest, type WaitCallsResponseSchema } from "@trunkline/proto/call";
import { CallState } from "@trunkline/proto/model";
import { Reason } from "@trunkline/proto/problem";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BatchError, Trunkline } from "../../client/src/index.js";
import { openedOf, outcomeOf, refusedOf } from "./support/outcome.js";
import { Peer, type DrivePeer } from "./support/peer.js";

let peer: Peer;
let client: Trunkline;
let asked: WaitCallsRequest[];
let answers: MessageInitShape<typeof WaitCallsResponseSchema>[];

beforeEach(async () => {
  asked = [];
  answers = [];
  peer = await Peer.start({
    calls: {
      waitCalls: (request) => {
        asked.push(request);
        return answers.shift()!;
      },
    },
  });
  client = new Trunkline({ url: peer.url, onWarning: () => undefined });
});

afterEach(async () => {
  await client.close();
  await peer.stop();
});

const turn = () => client.runs.open("r1").turn(2);

const DECISION = [
  { tool: "weather", input: { city: "Oslo" }, key: "toolu_1" },
  { tool: "search", input: { from: "OSL" }, key: "toolu_2", priority: 3 },
  { tool: "ask", key: "toolu_3", policy: { deferTimeout: "3d" } },
] as const;

/** The opens of the next frame that has any. */
async function opensOn(stream: DrivePeer) {
  return (await stream.until(({ opens }) => opens.length > 0)).opens;
}

/** What an action of the test rejects with. */
const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => expect.fail("it did not reject"),
    (error: unknown) => error,
  );

describe("the calls of a decision, opened at once", () => {
  test("go out in one frame, in their order, under the model's own ids", async () => {
    const opening = turn().openAll(DECISION);
    const stream = await peer.welcomeDrive();
    const opens = await opensOn(stream);
    expect(opens.map(({ runId, call }) => [runId, call])).toMatchObject([
      ["r1", { turn: 2, key: "toolu_1", tool: "weather", inputJson: '{"city":"Oslo"}', priority: 0 }],
      ["r1", { turn: 2, key: "toolu_2", tool: "search", inputJson: '{"from":"OSL"}', priority: 3 }],
      ["r1", { turn: 2, key: "toolu_3", tool: "ask", inputJson: "null" }],
    ]);
    stream.send({ opened: opens.map((open, index) => openedOf(open, index + 1)) });
    expect((await opening).map(({ id, key, created }) => [id, key, created])).toEqual([
      ["r1/1", "toolu_1", true],
      ["r1/2", "toolu_2", true],
      ["r1/3", "toolu_3", true],
    ]);
  });

  test("go out again with the same keys, and in the same order, when the stream was cut", async () => {
    const opening = turn().openAll(DECISION);
    const first = await peer.welcomeDrive();
    await opensOn(first);
    peer.cut();
    const second = await peer.welcomeDrive();
    const opens = await opensOn(second);
    expect(opens.map(({ call }) => call?.key)).toEqual(["toolu_1", "toolu_2", "toolu_3"]);
    second.send({ opened: opens.map((open, index) => openedOf(open, index + 1, { created: index > 0 })) });
    expect((await opening).map(({ created }) => created)).toEqual([false, true, true]);
  });

  test("are refused one by one, and the others are open (I11)", async () => {
    const opening = rejection(turn().openAll(DECISION));
    const stream = await peer.welcomeDrive();
    const opens = await opensOn(stream);
    stream.send({
      opened: [openedOf(opens[0]!, 1)],
      refused: [refusedOf(opens[1]!, Reason.SCHEMA_VIOLATION), refusedOf(opens[2]!, Reason.KEY_REUSED)],
    });
    const error = await opening;
    expect(error).toBeInstanceOf(BatchError);
    expect(error).toMatchObject({
      name: "BatchError",
      reason: "SCHEMA_VIOLATION",
      message: "2 of 3 calls refused: calls[1]: refused: SCHEMA_VIOLATION; calls[2]: refused: KEY_REUSED",
      refused: [
        { index: 1, tool: "search", key: "toolu_2", error: { reason: "SCHEMA_VIOLATION" } },
        { index: 2, tool: "ask", key: "toolu_3", error: { reason: "KEY_REUSED" } },
      ],
      opened: [{ id: "r1/1" }, undefined, undefined],
    });
  });

  test("are sent although JSON cannot carry the input of one", async () => {
    const opening = rejection(turn().openAll([{ tool: "echo", input: 1n }, ...DECISION.slice(0, 1)]));
    const stream = await peer.welcomeDrive();
    const opens = await opensOn(stream);
    expect(opens.map(({ call }) => call?.key)).toEqual(["toolu_1"]);
    stream.send({ opened: [openedOf(opens[0]!, 1)] });
    expect(await opening).toMatchObject({
      reason: "INVALID_JSON",
      refused: [{ index: 0, tool: "echo", key: undefined }],
      opened: [undefined, { id: "r1/1" }],
    });
  });

  test("of which very many are refused are not all named in the message", async () => {
    const many = Array.from({ length: 13 }, () => ({ tool: "echo", input: 1n }));
    expect(await rejection(turn().openAll(many))).toHaveProperty(
      "message",
      expect.stringMatching(/^13 of 13 calls refused: calls\[0\]: .*calls\[9\]: [^[]*; and 3 others$/),
    );
  });

  test("are none when the model called no tool", async () => {
    expect(await turn().openAll([])).toEqual([]);
    expect(peer.connections).toBe(0);
  });

  test.each<[string, unknown]>([
    ["calls", undefined],
    ["calls", { tool: "echo" }],
    ["calls[1]", [{ tool: "echo" }, null]],
    ["calls[0]", ["echo"]],
  ])("that are none are refused before any is opened: %s of %j", async (field, calls) => {
    const error = await rejection(turn().openAll(calls as []));
    expect(error).toMatchObject({ reason: "INVALID_FIELD", metadata: { field } });
    expect(peer.connections).toBe(0);
  });

  test("reject with the signal's reason when one is aborted", async () => {
    const gone = { tool: "echo", signal: AbortSignal.abort(new Error("enough")) };
    expect(await rejection(turn().openAll([gone]))).toHaveProperty("message", "enough");
  });

  test("each tell how they ended as soon as they have", async () => {
    const opening = turn().openAll(DECISION);
    const stream = await peer.welcomeDrive();
    const opens = await opensOn(stream);
    stream.send({ opened: opens.map((open, index) => openedOf(open, index + 1)) });
    const handles = await opening;
    stream.send({ outcomes: [outcomeOf("r1/2", { resultJson: "7" })] });
    expect(await handles[1]!.outcome()).toMatchObject({ state: "succeeded", result: 7 });
  });
});

describe("a turn's status", () => {
  const outcome = outcomeOf("r1/1", { turn: 2, key: "toolu_1", resultJson: "1" });
  const openCall = create(OpenCallSchema, {
    ...{ callId: "r1/2", key: "toolu_2", tool: "ask", state: CallState.DEFERRED },
  });

  test("has the results that are there already, and what is still open, without waiting", async () => {
    answers = [{ settled: false, outcomes: [outcome], open: [openCall] }];
    expect(await turn().status()).toMatchObject({
      settled: false,
      outcomes: [{ callId: "r1/1", key: "toolu_1", result: 1 }],
      open: [{ callId: "r1/2", key: "toolu_2", tool: "ask", state: "deferred" }],
    });
    expect(asked.map(({ timeout }) => timeout)).toMatchObject([{ seconds: 0n, nanos: 0 }]);
  });

  test("is not settled while a call of it is being opened here", async () => {
    const mine = turn();
    const opening = mine.openAll(DECISION.slice(0, 1));
    answers = [
      { settled: true, outcomes: [outcome] },
      { settled: true, outcomes: [outcome] },
    ];
    expect(await mine.status()).toMatchObject({ settled: false });
    const stream = await peer.welcomeDrive();
    stream.send({ opened: [openedOf((await opensOn(stream))[0]!, 2)] });
    await opening;
    expect(await mine.status()).toMatchObject({ settled: true });
  });
});
