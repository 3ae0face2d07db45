import { describe, expect, test } from "vitest";
import { until, within } from "../support/until.js";
import { attach, emptyQueues, newName, newRun, open, useExchanges } from "./support/exchanges.js";

const nodes = useExchanges();

test("an end user's single open does not wait until all that another has opened is stored", async () => {
  const { exchange } = await nodes.start();
  const tool = newName("tool");
  const [big, small] = [
    await newRun(exchange, { namespace: "big" }),
    await newRun(exchange, { namespace: "small" }),
  ];
  let stored = 0;
  const opening = Array.from({ length: 4_000 }, async () => {
    await open(exchange, big, { tool });
    stored++;
  });
  await open(exchange, small, { tool });
  expect(stored).toBeLessThan(2_000);
  await Promise.all(opening);
});

test("a call that waited for its batch goes straight to a worker that got room meanwhile", async () => {
  const held: (() => void)[] = [];
  const { exchange } = await nodes.start({
    onStatement: (name) =>
      name === "calls_insert" ? new Promise<void>((resolve) => void held.push(resolve)) : undefined,
  });
  const [tool, unserved] = [newName("tool"), newName("tool")];
  const worker = await attach(exchange, { tools: [tool], slots: 1 });
  await emptyQueues(exchange, worker);
  const run = await newRun(exchange);
  const first = open(exchange, run, { tool });
  const before = [first];
  for (let batches = 1; batches <= 3; batches++) {
    await until("a batch that is written", () => held.length === batches);
    if (batches < 3) before.push(open(exchange, run, { tool: unserved }));
  }
  const late = open(exchange, run, { tool });
  exchange.dispatch.grant(worker.own, 1);
  held[0]!();
  expect((await first).state).toBe("claimed");
  await until("its batch", () => held.length === 4);
  for (const release of held) release();
  expect((await late).state).toBe("claimed");
  expect((await nodes.call(await late)).version).toBe(1);
  await Promise.all(before);
});

describe("of a crowd of opens", () => {
  const CALLS = 1_500;

  test("none is queued while workers take many: each goes straight to one as soon as there is room", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool], slots: 100 });
    await emptyQueues(exchange, worker);
    const run = await newRun(exchange);
    const opening = Array.from({ length: CALLS }, async () => {
      const call = await open(exchange, run, { tool });
      // As if its handler were done.
      exchange.dispatch.grant(worker.own, 1);
      return call;
    });
    const calls = await Promise.all(opening);
    const queued = calls.filter(({ state }) => state === "queued").map(({ seq }) => seq);
    // The last ones are no crowd any more.
    expect(queued.filter((seq) => seq <= CALLS - 500)).toEqual([]);
  });

  test("all are stored though workers, which take many, give all their room to what is queued", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool], slots: 1 });
    await emptyQueues(exchange, worker);
    const run = await newRun(exchange);
    const taking = setInterval(() => (worker.own.handedOut += 100), 1);
    try {
      const opening = Array.from({ length: CALLS }, () => open(exchange, run, { tool }));
      const calls = await within("all are stored", Promise.all(opening), 5_000);
      expect(calls.filter(({ state }) => state === "queued")).toHaveLength(CALLS - 1);
    } finally {
      clearInterval(taking);
    }
  });

  test("all are stored though no worker takes any", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool], slots: 1 });
    await emptyQueues(exchange, worker);
    const run = await newRun(exchange);
    const calls = await Promise.all(Array.from({ length: CALLS }, () => open(exchange, run, { tool })));
    expect(calls.filter(({ state }) => state === "claimed")).toHaveLength(1);
    expect(calls.filter(({ state }) => state === "queued")).toHaveLength(CALLS - 1);
  });
});
