import { describe, expect, test } from "vitest";
import { until } from "../support/until.js";
import { attach, emptyQueues, newName, newRun, open, useExchanges } from "./support/exchanges.js";

const nodes = useExchanges();

const numbersOf = (offers: readonly { readonly call: { readonly seq: number } }[]): number[] =>
  offers.map(({ call }) => call.seq);

describe("Dispatch", () => {
  test("a call goes straight to a free worker when its queue is known to be empty: one row version", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool] });
    await emptyQueues(exchange, worker);
    const call = await open(exchange, await newRun(exchange), { tool });
    expect(call.state).toBe("claimed");
    expect(numbersOf(worker.offers)).toEqual([1]);
    expect((await nodes.call(call)).version).toBe(1);
  });

  test("a call does not pass the ones that are queued before it", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const run = await newRun(exchange);
    const queued = await Promise.all(Array.from({ length: 5 }, () => open(exchange, run, { tool })));
    const worker = await attach(exchange, { tools: [tool], slots: 0 });
    exchange.dispatch.grant(worker.own, 6);
    const late = await open(exchange, run, { tool });
    expect(late.state).toBe("queued");
    await worker.offerOf(late);
    expect(numbersOf(worker.offers)).toEqual([...queued, late].map(({ seq }) => seq));
  });

  test("while each queued call has a slot in a claim that is under way, new ones go straight to what room is left", async () => {
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    let claims = 0;
    const { exchange } = await nodes.start({
      onStatement: (name) => (name === "calls_claim" && ++claims === 2 ? held : undefined),
    });
    const tool = newName("tool");
    const run = await newRun(exchange);
    const worker = await attach(exchange, { tools: [tool], slots: 1 });
    await until("its first round is over", () => claims === 1 && worker.own.credit === 1);
    const calls = [await open(exchange, run, { tool }), await open(exchange, run, { tool })];
    expect(calls.map(({ state }) => state)).toEqual(["claimed", "queued"]);
    exchange.dispatch.grant(worker.own, 5);
    await until("the claim of the second", () => claims === 2);
    expect((await open(exchange, run, { tool })).state).toBe("claimed");
    release();
    await until("the second", () => worker.offers.length === 3);
    expect(numbersOf(worker.offers)).toEqual([1, 3, 2]);
    expect(worker.own.credit).toBe(3);
    expect((await open(exchange, run, { tool })).state).toBe("claimed");
    expect(claims).toBe(2);
  });

  test("the higher priority is claimed first, then the longest queued", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const run = await newRun(exchange);
    for (const priority of [0, 5, -5, 5, 0]) await open(exchange, run, { tool, priority });
    const worker = await attach(exchange, { tools: [tool], slots: 1 });
    await until("the first offer", () => worker.offers.length === 1);
    for (let granted = 1; granted < 5; granted++) {
      exchange.dispatch.grant(worker.own, 1);
      await until("the next offer", () => worker.offers.length === granted + 1);
    }
    expect(numbersOf(worker.offers)).toEqual([2, 4, 1, 5, 3]);
  });

  test("end users take turns where each has a backlog, slot by slot, and each one's calls come by their age", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const [big, small] = [
      await newRun(exchange, { namespace: "big" }),
      await newRun(exchange, { namespace: "small" }),
    ];
    await Promise.all(Array.from({ length: 30 }, () => open(exchange, big, { tool })));
    for (let count = 0; count < 3; count++) await open(exchange, small, { tool });
    const worker = await attach(exchange, { tools: [tool], slots: 1 });
    for (let offered = 1; offered < 8; offered++) {
      await until("the next offer", () => worker.offers.length === offered);
      exchange.dispatch.grant(worker.own, 1);
    }
    await until("the last offer", () => worker.offers.length === 8);
    expect(worker.offers.map(({ call }) => `${call.namespace} ${call.seq}`)).toEqual([
      ...["small 1", "big 1", "small 2", "big 2", "small 3", "big 3", "big 4", "big 5"],
    ]);
  });

  test("a call does not pass one that a round did not come to", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const ended = await Promise.all(["x", "y", "z"].map((namespace) => newRun(exchange, { namespace })));
    const run = await newRun(exchange, { namespace: "a" });
    for (const each of [...ended, run]) await open(exchange, each, { tool });
    const ids = ended.map(({ record }) => record.id);
    await nodes.database
      .pool()
      .query("UPDATE runs SET state = 'ended', ended_at = now(), due_at = now() WHERE id = ANY ($1)", [ids]);
    const worker = await attach(exchange, { tools: [tool], slots: 1 });
    for (let count = 0; count < 5; count++) {
      await until("no claim round is under way", () => worker.own.credit === 1);
      const late = await open(exchange, run, { tool });
      expect(await nodes.call(late)).toMatchObject({ state: "queued" });
    }
    expect(worker.offers).toEqual([]);
  });

  test("calls are shared among workers in turn", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const workers = await Promise.all([0, 1, 2].map(() => attach(exchange, { tools: [tool], slots: 20 })));
    await until("no claim round is under way", async () => {
      await exchange.dispatch.poll();
      return workers.every(({ own }) => own.credit === 20);
    });
    const run = await newRun(exchange);
    for (let index = 0; index < 9; index++) {
      await exchange.dispatch.poll();
      expect((await open(exchange, run, { tool })).state).toBe("claimed");
    }
    expect(workers.map(({ offers }) => offers.length)).toEqual([3, 3, 3]);
    expect(workers.map(({ own }) => own.credit)).toEqual([17, 17, 17]);
  });

  test("a backlog is shared among workers within their credit (I9)", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const run = await newRun(exchange);
    await Promise.all(Array.from({ length: 30 }, () => open(exchange, run, { tool })));
    const workers = await Promise.all([3, 5, 7].map((slots) => attach(exchange, { tools: [tool], slots })));
    await until("all credit is used", () => workers.every(({ own }) => own.credit === 0));
    await until("all claims are offered", () => workers.flatMap(({ offers }) => offers).length === 15);
    expect(workers.map(({ offers }) => offers.length)).toEqual([3, 5, 7]);
    expect(new Set(workers.flatMap(({ offers }) => numbersOf(offers))).size).toBe(15);
  });

  test("credit that a round took and did not use is put back", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const run = await newRun(exchange);
    await open(exchange, run, { tool });
    const worker = await attach(exchange, { tools: [tool], slots: 10 });
    await until(
      "one is offered and nine are free",
      () => worker.offers.length === 1 && worker.own.credit === 9,
    );
  });

  test("a worker with a toolset gets only calls of runs with it", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool], toolset: "mine" });
    await emptyQueues(exchange, worker);
    const call = await open(exchange, await newRun(exchange), { tool });
    expect(call.state).toBe("queued");
    await exchange.dispatch.poll();
    const other = await attach(exchange, { tools: [tool] });
    await other.offerOf(call);
    expect(worker.offers).toEqual([]);
  });

  test("a worker that drains or has gone gets nothing, and its claim under way is taken back unspent", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool] });
    await emptyQueues(exchange, worker);
    const run = await newRun(exchange);
    const opening = open(exchange, run, { tool });
    exchange.sessions.drain(worker.own);
    const call = await opening;
    expect(worker.isDrained).toBe(true);
    await until("the claim is taken back", async () => (await nodes.call(call)).state === "queued");
    expect(await nodes.call(call)).toMatchObject({ spent: 0 });
    expect((await open(exchange, run, { tool })).state).toBe("queued");
    expect(worker.offers).toEqual([]);
  });

  test("a poll finds what another node has queued", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const tool = newName("tool");
    const worker = await attach(two.exchange, { tools: [tool] });
    await emptyQueues(two.exchange, worker);
    const call = await open(one.exchange, await newRun(one.exchange), { tool });
    expect(worker.offers).toEqual([]);
    await two.exchange.dispatch.poll();
    await worker.offerOf(call);
  });

  test("a session that has gone to another node keeps no calls from it until that is found out", async () => {
    const sent: string[] = [];
    const one = await nodes.start({ onStatement: (name) => void sent.push(name) });
    const two = await nodes.start();
    const process = { tools: [newName("tool")], sessionId: newName("session"), nonce: newName("nonce") };
    const stale = await attach(one.exchange, { ...process, helloNumber: 1 });
    await emptyQueues(one.exchange, stale);
    await attach(two.exchange, { ...process, helloNumber: 2 });
    one.exchange.hints.othersAlive = true;
    const call = await open(one.exchange, await newRun(one.exchange), { tool: process.tools[0]! });
    expect(call.state).toBe("queued");
    await until("the other nodes are told", () => sent.includes("notify"));
    expect(stale.offers).toEqual([]);
  });

  test("what another node may have queued is read once, and not claimed for each list of tools that has this one", async () => {
    const sent: string[] = [];
    const { exchange } = await nodes.start({ onStatement: (name) => void sent.push(name) });
    const tool = newName("tool");
    const workers = await Promise.all(
      Array.from({ length: 20 }, () => attach(exchange, { tools: [tool, newName("own")], slots: 1 })),
    );
    await until("their first rounds are over", () => workers.every(({ own }) => own.assigned === 0));
    sent.length = 0;
    exchange.dispatch.queuedElsewhere(1, tool);
    await until("it is looked at", () => sent.length > 0);
    expect(sent).toEqual(["calls_filled"]);
  });

  test("two nodes with workers for one tool hand out each call once", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const tool = newName("tool");
    const run = await newRun(one.exchange);
    await Promise.all(Array.from({ length: 60 }, () => open(one.exchange, run, { tool })));
    const workers = await Promise.all(
      [one, two].map(({ exchange }) => attach(exchange, { tools: [tool], slots: 100 })),
    );
    const polling = until("all are offered", async () => {
      await Promise.all([one, two].map(({ exchange }) => exchange.dispatch.poll()));
      return workers.flatMap(({ offers }) => offers).length >= 60;
    });
    await polling;
    expect(new Set(workers.flatMap(({ offers }) => numbersOf(offers))).size).toBe(60);
    expect(workers.flatMap(({ offers }) => offers)).toHaveLength(60);
  });
});
