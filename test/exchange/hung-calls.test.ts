import { expect, test } from "vitest";
import type { CallRef } from "../../server/src/core/call.js";
import { attach, newName, newRun, open, result, SCOPE, useExchanges } from "./support/exchanges.js";

const nodes = useExchanges();

const HUNG = 2;
const GOOD = 5;

test("S20: calls that hang whoever takes them let those behind them pass, though they were first", async () => {
  const { exchange, faults } = await nodes.start();
  const tool = newName("tool");
  const run = await newRun(exchange);
  const policy = { backoffInitialMs: 60_000, backoffMaxMs: 60_000 };
  const calls: CallRef[] = [];
  for (let opened = 0; opened < HUNG + GOOD; opened++) {
    calls.push(await open(exchange, run, { tool, policy }));
  }
  const hung = new Set(calls.slice(0, HUNG).map(({ seq }) => seq));
  const taken: number[] = [];
  // A lost attempt is made again at once the first time, and after a backoff from then on.
  while (taken.length < 2 * HUNG + GOOD) {
    const worker = await attach(exchange, { tools: [tool], slots: 1 });
    const { call } = await worker.offered();
    taken.push(call.seq);
    const claimId = call.claim.id;
    if (hung.has(call.seq)) await exchange.apply(call, { type: "lease_ended", claimId }, null);
    else await exchange.apply(call, { type: "answer", claimId, answer: result("1") }, SCOPE);
  }
  expect(taken).toEqual([1, 1, 2, 2, 3, 4, 5, 6, 7]);
  const states = await Promise.all(calls.map(async (call) => (await nodes.call(call)).state));
  expect(states).toEqual([...Array<string>(HUNG).fill("queued"), ...Array<string>(GOOD).fill("succeeded")]);
  expect(faults).toEqual([]);
});
