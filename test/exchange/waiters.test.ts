import { describe, expect, test } from "vitest";
import type { CallRef } from "../../server/src/core/call.js";
import type { Outcome } from "../../server/src/exchange/delivery.js";
import { newRun, open, result, SCOPE, useExchanges, type TestExchange } from "./support/exchanges.js";

const nodes = useExchanges();

class Waiting {
  readonly told: Outcome[] = [];
  outcome(outcome: Outcome): void {
    this.told.push(outcome);
  }
}

const settle = ({ exchange }: TestExchange, call: CallRef, json = "1") =>
  exchange.apply(call, { type: "settle", attempt: null, answer: result(json) }, SCOPE);

describe("Waiters", () => {
  test("all who wait for a call are told once, and nobody is kept", async () => {
    const node = await nodes.start();
    const call = await open(node.exchange, await newRun(node.exchange));
    const waiting = [new Waiting(), new Waiting()];
    for (const one of waiting) node.exchange.waiters.add(call, one, SCOPE);
    node.exchange.waiters.add(call, waiting[0]!, SCOPE);
    await settle(node, call);
    await settle(node, call);
    expect(waiting.map(({ told }) => told.length)).toEqual([1, 1]);
    expect(node.exchange.waiters.size).toBe(0);
  });

  test("a watch tells of what has ended, waits for what is open, and leaves out what is not there", async () => {
    const node = await nodes.start();
    const run = await newRun(node.exchange);
    const calls = await Promise.all(Array.from({ length: 100 }, () => open(node.exchange, run)));
    await Promise.all(calls.slice(0, 70).map((call) => settle(node, call, `"${call.seq}"`)));
    const missing = { ...calls[0]!, seq: 1_000 };
    const waiting = new Waiting();
    const found = await node.exchange.waiters.watch([...calls, missing], waiting, SCOPE);
    expect(found.size).toBe(100);
    expect(waiting.told).toHaveLength(70);
    expect(
      waiting.told.every(({ call }) => call.state === "succeeded" && call.resultJson === `"${call.seq}"`),
    ).toBe(true);
    expect(node.exchange.waiters.size).toBe(30);
    await Promise.all(calls.slice(70).map((call) => settle(node, call)));
    expect(waiting.told).toHaveLength(100);
    expect(node.exchange.waiters.size).toBe(0);
  });

  test("results that are looked up are told whole, small and large ones", async () => {
    const node = await nodes.start();
    const run = await newRun(node.exchange);
    const calls = await Promise.all(Array.from({ length: 50 }, () => open(node.exchange, run)));
    const resultOf = ({ seq }: CallRef): string => JSON.stringify("x".repeat(seq === 1 ? 10 : 10_000 + seq));
    await Promise.all(calls.map((call) => settle(node, call, resultOf(call))));
    const waiting = new Waiting();
    await node.exchange.waiters.watch(calls, waiting, SCOPE);
    const told = new Map(
      waiting.told.map(({ call }) => [call.seq, call.state === "succeeded" && call.resultJson]),
    );
    expect(told).toEqual(new Map(calls.map((call) => [call.seq, resultOf(call)])));
  });

  test("a call that ends while it is being looked at is told of once", async () => {
    const node = await nodes.start();
    const run = await newRun(node.exchange);
    for (let round = 0; round < 20; round++) {
      const call = await open(node.exchange, run);
      const waiting = new Waiting();
      await Promise.all([settle(node, call), node.exchange.waiters.watch([call], waiting, SCOPE)]);
      expect(waiting.told).toHaveLength(1);
    }
  });

  test("nobody is told of another end user's call, whenever it ends (I7)", async () => {
    const node = await nodes.start();
    const run = await newRun(node.exchange);
    const call = await open(node.exchange, run);
    const waiting = new Waiting();
    const bob = { projectId: 1, namespace: "bob" };
    const [found] = await Promise.all([
      node.exchange.waiters.watch([call], waiting, bob),
      settle(node, call),
    ]);
    node.exchange.waiters.add(await open(node.exchange, run), waiting, bob);
    await settle(node, { ...call, seq: 2 });
    expect([found.size, waiting.told.length]).toEqual([0, 0]);
  });

  test("whoever waits for another project's call does not keep its end from its own callers (I7)", async () => {
    const [here, there] = [await nodes.start(), await nodes.start()];
    const call = await open(here.exchange, await newRun(here.exchange));
    const [own, foreign] = [new Waiting(), new Waiting()];
    here.exchange.waiters.add({ ...call, projectId: 2 }, foreign, { projectId: 2, namespace: null });
    here.exchange.waiters.add(call, own, SCOPE);
    await settle(there, call);
    await here.exchange.waiters.lookAt(null);
    expect([own.told.length, foreign.told.length]).toEqual([1, 0]);
  });

  test("what ended on another node is found by catching up", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const run = await newRun(one.exchange);
    const calls = await Promise.all([open(one.exchange, run), open(one.exchange, run)]);
    const waiting = new Waiting();
    for (const call of calls) one.exchange.waiters.add(call, waiting, SCOPE);
    await settle(two, calls[0]);
    expect(waiting.told).toHaveLength(0);
    await one.exchange.waiters.lookAt(null);
    expect(waiting.told).toMatchObject([{ call: { seq: 1, resultJson: "1" } }]);
    expect(waiting.told[0]?.endedAt).toBeGreaterThan(0);
    expect(one.exchange.waiters.size).toBe(1);
  });

  test("a turn's waiter is told when one of its calls is opened or ends, until it leaves", async () => {
    const node = await nodes.start();
    const run = await newRun(node.exchange);
    let moves = 0;
    const leave = node.exchange.waiters.addTurn(run.record.id, 3, { turnMoved: () => moves++ });
    const call = await open(node.exchange, run, { turn: 3 });
    await open(node.exchange, run, { turn: 4 });
    await settle(node, call);
    expect(moves).toBe(2);
    leave();
    await open(node.exchange, run, { turn: 3 });
    expect([moves, node.exchange.waiters.size]).toEqual([2, 0]);
  });
});
