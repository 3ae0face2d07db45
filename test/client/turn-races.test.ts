import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { OpenCallSchema, type WaitCallsResponseSchema } from "@trunkline/proto/call";
import { CallState } from "@trunkline/proto/model";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Trunkline } from "../../client/src/index.js";
import type { CallHandle, Turn } from "../../client/src/index.js";
import { openedOf, outcomeOf } from "./support/outcome.js";
import { Peer } from "./support/peer.js";

let peer: Peer;
let client: Trunkline;
let answers: (() => Answer | Promise<Answer>)[];
type Answer = MessageInitShape<typeof WaitCallsResponseSchema>;

beforeEach(async () => {
  answers = [];
  peer = await Peer.start({ calls: { waitCalls: () => answers.shift()!() } });
  client = new Trunkline({ url: peer.url, onWarning: () => undefined });
});

afterEach(async () => {
  await client.close();
  await peer.stop();
});

const outcome = (seq: number) => outcomeOf(`r1/${seq}`, { turn: 2, resultJson: String(seq) });
const openCall = (seq: number) =>
  create(OpenCallSchema, { callId: `r1/${seq}`, key: `k${seq}`, tool: "echo", state: CallState.DEFERRED });
const turn = (): Turn => client.runs.open("r1").turn(2);
const idsOf = (ended: readonly { readonly callId: string }[]): string[] => ended.map(({ callId }) => callId);

/** Has a call opened; the server has its open, and acknowledges it when told so. */
async function sent(of: Turn): Promise<() => Promise<CallHandle>> {
  const opening = of.open("echo", 1, { key: "b" });
  const stream = await peer.welcomeDrive();
  const { opens } = await stream.until((frame) => frame.opens.length > 0);
  return () => {
    stream.send({ opened: [openedOf(opens[0]!, 2)] });
    return opening;
  };
}

test("a wait does not end while a call is still being opened that was begun during it", async () => {
  const mine = turn();
  let acknowledge: (() => Promise<CallHandle>) | undefined;
  answers = [
    async () => {
      acknowledge = await sent(mine);
      setTimeout(() => void acknowledge?.(), 20);
      return { settled: true, outcomes: [outcome(1)] };
    },
    () => ({ settled: true, outcomes: [outcome(1), outcome(2)] }),
  ];
  expect(idsOf(await mine.settled())).toEqual(["r1/1", "r1/2"]);
});

test("a call that was opened during a look counts, though the look did not see it", async () => {
  const mine = turn();
  answers = [
    async () => {
      await (
        await sent(mine)
      )();
      return { settled: true, outcomes: [outcome(1)] };
    },
    () => ({ settled: true, outcomes: [outcome(1), outcome(2)] }),
  ];
  expect(idsOf(await mine.settled())).toEqual(["r1/1", "r1/2"]);
});

test("a turn's status is not settled by a look from before a call was opened", async () => {
  const mine = turn();
  const acknowledge = await sent(mine);
  answers = [
    async () => {
      await acknowledge();
      return { settled: true, outcomes: [outcome(1)] };
    },
    () => ({ settled: true, outcomes: [outcome(1), outcome(2)] }),
  ];
  expect(await mine.status()).toMatchObject({ settled: false });
  expect(await mine.status()).toMatchObject({ settled: true });
});

test("a call that ends between two pages has its outcome before the turn is settled", async () => {
  answers = [
    () => ({ settled: false, outcomes: [outcome(2)], open: [openCall(1)], nextAfterSeq: 2 }),
    () => ({ settled: true, outcomes: [outcome(3)] }),
    () => ({ settled: true, outcomes: [outcome(1), outcome(2), outcome(3)] }),
  ];
  expect(idsOf(await turn().settled())).toEqual(["r1/1", "r1/2", "r1/3"]);
});

test("a turn's status has each call once, also one that ends between two pages", async () => {
  answers = [
    () => ({ settled: false, outcomes: [outcome(2)], open: [openCall(1), openCall(3)], nextAfterSeq: 2 }),
    () => ({ settled: true, outcomes: [outcome(3)] }),
  ];
  const { settled, outcomes, open } = await turn().status();
  expect([settled, idsOf(outcomes), idsOf(open)]).toEqual([false, ["r1/2", "r1/3"], ["r1/1"]]);
});
