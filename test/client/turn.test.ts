import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { OpenCallSchema, type WaitCallsRequest, type WaitCallsResponseSchema } from "@trunkline/proto/call";
import { CallState } from "@trunkline/proto/model";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Trunkline, TurnTimeoutError } from "../../client/src/index.js";
import { gate } from "./support/claim.js";
import { openedOf, outcomeOf } from "./support/outcome.js";
import { Peer } from "./support/peer.js";

let peer: Peer;
let client: Trunkline;
let asked: WaitCallsRequest[];
type Answer = MessageInitShape<typeof WaitCallsResponseSchema>;
let answers: (() => Answer | Promise<Answer>)[];

beforeEach(async () => {
  asked = [];
  answers = [];
  peer = await Peer.start({
    calls: {
      waitCalls: (request) => {
        asked.push(request);
        return answers.shift()!();
      },
    },
  });
  client = new Trunkline({ url: peer.url, onWarning: () => undefined });
});

afterEach(async () => {
  await client.close();
  await peer.stop();
});

const outcome = (seq: number) => outcomeOf(`r1/${seq}`, { turn: 2, resultJson: String(seq) });
const openCall = (seq: number) =>
  create(OpenCallSchema, { callId: `r1/${seq}`, key: `k${seq}`, tool: "echo", state: CallState.DEFERRED });
const turn = () => client.runs.open("r1").turn(2);

test("outcomes come in seq order, page by page, once nothing is open (I8, B04)", async () => {
  answers = [
    () => ({ settled: false, outcomes: [outcome(1)], open: [openCall(2)] }),
    () => ({ settled: true, outcomes: [outcome(1), outcome(2)], nextAfterSeq: 2 }),
    () => ({ settled: true, outcomes: [outcome(3)] }),
  ];
  const outcomes = await turn().settled();
  expect(outcomes.map(({ callId, result }) => [callId, result])).toEqual([
    ["r1/1", 1],
    ["r1/2", 2],
    ["r1/3", 3],
  ]);
  expect(asked.map(({ runId, turn: number, afterSeq }) => [runId, number, afterSeq])).toEqual([
    ["r1", 2, 0],
    ["r1", 2, 0],
    ["r1", 2, 2],
  ]);
});

test("a turn that was reopened between two pages is not settled", async () => {
  answers = [
    () => ({ settled: true, outcomes: [outcome(1)], nextAfterSeq: 1 }),
    () => ({ settled: false, outcomes: [], open: [openCall(2)] }),
    () => ({ settled: true, outcomes: [outcome(1), outcome(2)] }),
  ];
  expect((await turn().settled()).map(({ callId }) => callId)).toEqual(["r1/1", "r1/2"]);
});

test("a wait that runs out says which calls are open and how the others ended", async () => {
  answers = Array.from({ length: 1000 }, () => () => ({
    settled: false,
    outcomes: [outcome(1)],
    open: [openCall(2), openCall(3)],
  }));
  const error = await turn()
    .settled({ timeout: "50ms" })
    .catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(TurnTimeoutError);
  expect(error).toMatchObject({
    name: "TurnTimeoutError",
    reason: "TIMEOUT",
    message: "turn 2 is not settled after 50ms; open: r1/2 (echo, deferred), r1/3 (echo, deferred)",
    open: [{ callId: "r1/2", key: "k2", tool: "echo", state: "deferred" }, { callId: "r1/3" }],
    outcomes: [{ callId: "r1/1", result: 1 }],
  });
});

test("a wait that runs out on very many calls names a few of them in its message, and has all", async () => {
  const open = Array.from({ length: 1000 }, (_, index) => openCall(index + 1));
  answers = Array.from({ length: 1000 }, () => () => ({ settled: false, outcomes: [], open }));
  const error = await turn()
    .settled({ timeout: "1ms" })
    .catch((thrown: unknown) => thrown);
  expect(error).toHaveProperty("message", expect.stringMatching(/r1\/10 .*, and 990 or more others$/));
  expect(error).toHaveProperty("open.length", 1000);
});

test("the turn's own opens are awaited first, refused ones too", async () => {
  const mine = turn();
  const opening = mine.open("echo", 1, { key: "a" });
  answers = [() => ({ settled: true, outcomes: [outcome(1)] })];
  const settled = mine.settled();
  const stream = await peer.welcomeDrive();
  const { opens } = await stream.until((frame) => frame.opens.length > 0);
  expect(opens[0]!.call).toMatchObject({ turn: 2, key: "a" });
  expect(asked).toEqual([]);
  stream.send({ opened: [openedOf(opens[0]!, 1)] });
  expect(await settled).toHaveLength(1);
  await opening;
});

test("a wait goes on across a restart of the server, and an abort ends it", async () => {
  const abort = new AbortController();
  answers = [
    () => {
      throw new ConnectError("away", Code.Unavailable);
    },
    () => ({ settled: true, outcomes: [outcome(1)] }),
    () => {
      abort.abort();
      return { settled: false, open: [openCall(1)] };
    },
  ];
  expect(await turn().settled()).toHaveLength(1);
  await expect(turn().settled({ signal: abort.signal })).rejects.toMatchObject({ name: "AbortError" });
});

test("closing the client rejects a wait that is under way, at once and for good", async () => {
  const under = gate();
  answers = [
    () => {
      under.open();
      return new Promise(() => undefined);
    },
  ];
  const waiting = turn().settled();
  const rejected = expect(waiting).rejects.toMatchObject({ name: "TrunklineError", reason: "CLOSED" });
  await under.promise;
  await client.close();
  await rejected;
  await expect(turn().settled()).rejects.toMatchObject({ reason: "CLOSED" });
  await expect(client.runs.create()).rejects.toMatchObject({ reason: "CLOSED" });
  expect(() => client.worker({ tools: { echo: () => 1 } })).toThrow(
    expect.objectContaining({ reason: "CLOSED" }),
  );
  expect(asked).toHaveLength(1);
});

test("a turn's number is a whole number of 31 bits", () => {
  for (const number of [-1, 1.5, 2 ** 31, NaN]) {
    expect(() => client.runs.open("r1").turn(number)).toThrow(/^turn: /);
  }
});
