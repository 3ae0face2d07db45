import { describe, expect, test } from "vitest";
import { throughout, until } from "../support/until.js";
import { attach, emptyQueues, newName, newRun, open, SCOPE, useExchanges } from "./support/exchanges.js";

const nodes = useExchanges();

const LONG_MS = 60_000;

describe("a queue that a poll found empty", () => {
  test("is not read again while hints arrive, and a call still goes straight to a worker", async () => {
    const sent: string[] = [];
    const onStatement = (name: string): void => void sent.push(name);
    const [hearing, deaf] = await Promise.all([
      nodes.start({ hearsHints: () => true, onStatement }),
      nodes.start(),
    ]);
    const tool = newName("tool");
    const run = await newRun(hearing.exchange);
    for (const { exchange } of [hearing, deaf]) {
      await emptyQueues(exchange, await attach(exchange, { tools: [tool] }));
    }
    sent.length = 0;
    // Longer than what was read empty counts as empty without hints.
    await throughout(1_100, () => hearing.exchange.dispatch.poll(LONG_MS));
    expect(sent).toEqual([]);
    expect((await open(hearing.exchange, run, { tool })).state).toBe("claimed");
    expect((await open(deaf.exchange, run, { tool })).state).toBe("queued");
  });

  test("is read again in time: a call whose hint was lost is found", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start({ hearsHints: () => true })]);
    const tool = newName("tool");
    const worker = await attach(two.exchange, { tools: [tool] });
    await emptyQueues(two.exchange, worker);
    const call = await open(one.exchange, await newRun(one.exchange), { tool });
    await two.exchange.dispatch.poll(LONG_MS);
    expect(worker.offers).toEqual([]);
    await until("the call is found", async () => {
      await two.exchange.dispatch.poll(20);
      return worker.offers.length > 0;
    });
    await worker.offerOf(call);
  });

  test("is claimed from at once when a hint says that another node has filled it", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start({ hearsHints: () => true })]);
    const tool = newName("tool");
    const worker = await attach(two.exchange, { tools: [tool] });
    await emptyQueues(two.exchange, worker);
    const call = await open(one.exchange, await newRun(one.exchange), { tool });
    two.exchange.heard({ queued: [[SCOPE.projectId, tool]], ended: [] });
    await worker.offerOf(call);
    const late = await open(one.exchange, await newRun(one.exchange), { tool });
    two.exchange.missed();
    await worker.offerOf(late);
  });
});

describe("other nodes are told of a call", () => {
  async function told() {
    let count = 0;
    const { exchange } = await nodes.start({
      hearsHints: () => true,
      onStatement: (name) => {
        if (name === "notify") count++;
      },
    });
    exchange.hints.othersAlive = true;
    return { exchange, count: () => count };
  }

  test("that the workers here cannot take, being bound to another toolset", async () => {
    const { exchange, count } = await told();
    const tool = newName("tool");
    await emptyQueues(exchange, await attach(exchange, { tools: [tool], toolset: "mine" }));
    await open(exchange, await newRun(exchange), { tool });
    await until("the hint", () => count() === 1);
    await exchange.dispatch.poll(LONG_MS);
    // What another node has queued is for that node to tell of: two nodes would tell each other for ever.
    exchange.heard({ queued: [[SCOPE.projectId, tool]], ended: [] });
    await exchange.dispatch.poll(LONG_MS);
    await throughout(100, () => expect(count()).toBe(1));
  });

  test("that is to be tried again, where the workers here may be bound to another toolset", async () => {
    const { exchange, count } = await told();
    const tool = newName("tool");
    const taker = await attach(exchange, { tools: [tool] });
    await emptyQueues(exchange, taker);
    const call = await open(exchange, await newRun(exchange), { tool });
    await emptyQueues(exchange, await attach(exchange, { tools: [tool], toolset: "mine" }));
    exchange.sessions.drain(taker.own);
    await throughout(50, () => expect(count()).toBe(0));
    const { claim } = (await taker.offerOf(call)).call;
    await exchange.apply(call, { type: "release", claimId: claim.id }, null);
    await until("the hint", () => count() === 1);
  });

  test("for which the workers here had no room left", async () => {
    const { exchange, count } = await told();
    const tool = newName("tool");
    const run = await newRun(exchange);
    const worker = await attach(exchange, { tools: [tool], slots: 1 });
    await until("no claim round is under way", () => worker.own.credit === 1);
    await Promise.all([1, 2, 3].map(() => open(exchange, run, { tool })));
    await until("an offer", () => worker.offers.length === 1);
    await exchange.dispatch.poll(LONG_MS);
    await until("a hint", () => count() > 0);
  });

  test("that is left when the node shuts down, and not of one that its workers took", async () => {
    const { exchange, count } = await told();
    const [taken, left] = [newName("taken"), newName("left")];
    const run = await newRun(exchange);
    await emptyQueues(exchange, await attach(exchange, { tools: [taken] }));
    await emptyQueues(exchange, await attach(exchange, { tools: [left] }));
    expect((await open(exchange, run, { tool: taken })).state).toBe("claimed");
    await exchange.dispatch.poll();
    await throughout(50, () => expect(count()).toBe(0));
    exchange.dispatch.hold();
    await open(exchange, run, { tool: left });
    await throughout(50, () => expect(count()).toBe(0));
    exchange.stop();
    await until("the hint", () => count() === 1);
  });
});

test("a node that may have missed hints takes it that others are alive", async () => {
  const { exchange } = await nodes.start();
  expect(exchange.hints.othersAlive).toBe(false);
  exchange.missed();
  expect(exchange.hints.othersAlive).toBe(true);
});
