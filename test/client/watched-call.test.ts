import { expect, test } from "vitest";
import type { Outcome } from "../../client/src/call.js";
import { WatchedCall } from "../../client/src/watched-call.js";

const OUTCOME: Outcome = {
  callId: "r1/1",
  key: "k",
  turn: undefined,
  tool: "echo",
  attempt: 1,
  endedAt: undefined,
  state: "succeeded",
  result: 1,
  resultJson: "1",
  error: undefined,
};

let awaited = 0;
const newCall = (): WatchedCall =>
  new WatchedCall("r1/1", { adjustAwaited: (by) => void (awaited += by), watch: () => undefined });

test("an abort ends its own wait and no other, and every wait is counted until its end", async () => {
  const call = newCall();
  const abort = new AbortController();
  const waits = [call.outcome(), call.outcome(abort.signal), call.outcome()];
  expect([call.awaited, awaited]).toEqual([true, 3]);
  abort.abort();
  expect([call.awaited, awaited]).toEqual([true, 2]);
  call.end(OUTCOME);
  expect([call.awaited, awaited]).toEqual([false, 0]);
  const [first, aborted, last] = await Promise.allSettled(waits);
  expect([first?.status, aborted?.status, last?.status]).toEqual(["fulfilled", "rejected", "fulfilled"]);
});

test("a call whose only wait was aborted is awaited no more", async () => {
  const call = newCall();
  const abort = new AbortController();
  const wait = call.outcome(abort.signal);
  abort.abort();
  await expect(wait).rejects.toMatchObject({ name: "AbortError" });
  expect([call.awaited, awaited]).toEqual([false, 0]);
  await expect(call.outcome(abort.signal)).rejects.toMatchObject({ name: "AbortError" });
  expect(awaited).toBe(0);
});

test("a signal that aborts after the outcome changes nothing", async () => {
  const call = newCall();
  const abort = new AbortController();
  const waits = [call.outcome(abort.signal), call.outcome(abort.signal)];
  call.end(OUTCOME);
  abort.abort();
  expect(await Promise.all(waits)).toEqual([OUTCOME, OUTCOME]);
  expect(await call.outcome(abort.signal)).toEqual(OUTCOME);
  expect(awaited).toBe(0);
});

test("those who wait hear of the outcome in the order in which they came", async () => {
  const call = newCall();
  const heard: number[] = [];
  const waits = [1, 2, 3].map((number) => call.outcome().then(() => heard.push(number)));
  call.end(OUTCOME);
  await Promise.all(waits);
  expect(heard).toEqual([1, 2, 3]);
});
