import { describe, expect, test } from "vitest";
import type { ToolContext, Trunkline, Worker } from "@trunkline/sdk";
import { useStack } from "../support/stack.js";
import { somewhereWithin, throughout, within } from "../support/until.js";

const stack = useStack();

const LEASE_MS = 1_500;
const POLICY = { heartbeatTimeout: `${LEASE_MS}ms`, detachGrace: "500ms" } as const;

/** What the SDK allows for a server that is away. */
const PARTING_MS = 10_000;

describe.concurrent("B13a: a worker that is told to stop while a handler runs", () => {
  test.each(["stop()", "SIGTERM"] as const)(
    "(%s) keeps the claim alive to the end, answers, and takes no other",
    async (how) => {
      const tool = how === "stop()" ? "stopped" : "terminated";
      await using a = await stack.worker({ name: `${tool}_A`, tools: [tool] });
      const run = await stack.client.runs.create();
      const call = await run.open(tool, [{ wait: "end" }], { policy: POLICY });
      await a.told("waiting", call.id);
      const ended = how === "stop()" ? a.ended : a.terminate(LEASE_MS * 10);
      if (how === "stop()") a.stop();
      await using idle = await stack.worker({ name: `${tool}_idle`, tools: [tool] });
      const other = await run.open(tool, [{ return: null }], { policy: POLICY });
      expect(await other.outcome()).toMatchObject({ state: "succeeded" });
      await throughout(3 * LEASE_MS, async () => {
        expect(await call.status()).toMatchObject({ state: "claimed", attempt: 1 });
      });
      a.go("end");
      expect(await call.outcome()).toMatchObject({ attempt: 1, result: { worker: a.name } });
      expect(await within("the end of the process", ended)).toEqual({ status: 0, signal: null });
      expect(a.errors).toEqual([]);
      expect([await a.starts(), await idle.starts(call.id), await idle.starts(other.id)]).toEqual([1, 0, 1]);
    },
  );
});

interface Probe extends AsyncDisposable {
  readonly client: Trunkline;
  readonly worker: Worker;
  readonly starts: ToolContext[];
  readonly errors: unknown[];
}

/** A worker in this process. */
function probe(tool: string): Probe {
  const starts: ToolContext[] = [];
  const errors: unknown[] = [];
  const client = stack.newClient();
  const handler = (_: unknown, context: ToolContext): number => {
    starts.push(context);
    return context.attempt;
  };
  const worker = client.worker({ tools: { [tool]: handler }, onError: (error) => errors.push(error) });
  return { client, worker, starts, errors, [Symbol.asyncDispose]: () => client.close() };
}

const RACES = 60;
const AT_ONCE = 12;
/** Far below the lease, with room for a busy machine. */
const HANDED_BACK_MS = 5_000;

describe("B13b: a claim that arrives while stop() begins", () => {
  test(
    `is run or handed back at once, in ${RACES} races, and burns no attempt`,
    { timeout: 60_000 },
    async () => {
      const run = await stack.client.runs.create();
      const race = async (number: number): Promise<void> => {
        const tool = `race_${number}`;
        await using stopping = probe(tool);
        const mode = number % 2 === 0 ? "retry" : "at_most_once";
        const first = await run.open(tool, null, { policy: { mode } });
        await first.outcome();
        const opening = run.open(tool, null, { policy: { mode } });
        await somewhereWithin(20);
        const stopped = stopping.worker.stop();
        await using next = probe(tool);
        const call = await opening;
        const outcome = await within(`call ${call.id} is run or handed back`, call.outcome(), HANDED_BACK_MS);
        await within("the worker has stopped", stopped);
        expect(outcome).toMatchObject({ state: "succeeded" });
        const starts = [...stopping.starts, ...next.starts].filter(
          ({ idempotencyKey }) => idempotencyKey === call.id,
        );
        expect(starts).toHaveLength(1);
        expect(await call.status()).toMatchObject({ spent: 1, attempts: [] });
        expect([...stopping.errors, ...next.errors]).toEqual([]);
      };
      for (let done = 0; done < RACES; done += AT_ONCE) {
        await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => race(done + index)));
      }
    },
  );
});

describe.concurrent("B13d: stop()", () => {
  test("asked twice is the same stop", async () => {
    await using stopping = probe("twice");
    const first = stopping.worker.stop();
    expect(stopping.worker.stop()).toBe(first);
    await within("the worker has stopped", first);
  });

  test("during a deferral waits until it is stored", async () => {
    const tool = "deferring";
    await using proxy = await stack.proxy();
    await using a = await stack.worker({ name: tool, url: proxy.url });
    const run = await stack.client.runs.create();
    const call = await run.open(tool, [{ wait: "now" }, { defer: {} }], { policy: POLICY });
    await a.told("waiting", call.id);
    proxy.hold("up");
    a.go("now");
    await a.told("deferring", call.id);
    a.stop();
    proxy.release();
    const { token } = await a.told("deferred", call.id);
    await a.told("stopped");
    expect(await call.status()).toMatchObject({ state: "deferred", attempt: 1 });
    await stack.client.tasks.complete(token, "later");
    expect(await call.outcome()).toMatchObject({ state: "succeeded", attempt: 1 });
    expect(a.errors).toEqual([]);
  });

  test("with nothing to deliver does not wait for a server that cannot be reached", async () => {
    const tool = "unreachable";
    await using proxy = await stack.proxy();
    await using a = await stack.worker({ name: tool, url: proxy.url });
    proxy.refuse();
    proxy.cut("rst");
    a.stop();
    expect(await within("the end of the process", a.ended, PARTING_MS + 5_000)).toMatchObject({ status: 0 });
  });

  test("gives up an answer that cannot be delivered after its bound, names it, and another worker runs the call", async () => {
    const tool = "undeliverable";
    await using proxy = await stack.proxy();
    await using a = await stack.worker({ name: `${tool}_A`, tools: [tool], url: proxy.url });
    const run = await stack.client.runs.create();
    const call = await run.open(tool, [{ wait: "end" }], { policy: POLICY });
    await a.told("waiting", call.id);
    proxy.refuse();
    proxy.cut("rst");
    a.go("end");
    a.stop();
    expect(await within("the end of the process", a.ended, PARTING_MS + 5_000)).toMatchObject({ status: 0 });
    expect(a.errors.at(-1)?.message).toContain(call.id);
    await using idle = await stack.worker({ name: `${tool}_idle`, tools: [tool] });
    idle.go("end");
    expect(await call.outcome()).toMatchObject({ state: "succeeded", attempt: 2 });
  });
});
