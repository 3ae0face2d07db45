import { describe, expect, test } from "vitest";
import { useNodes } from "../nodes/support/nodes.js";
import { figure, spread } from "../support/full-size.js";
import { attached } from "../support/stack.js";
import { lasting, somewhereWithin, until } from "../support/until.js";
import { WorkerProcess } from "../support/worker-process.js";

const nodes = useNodes();

/** The server's default. */
const heartbeatInterval = "5s";
const VICTIMS = 8;
const CALLS_EACH = 5;

/** When each call was started by a worker that takes whatever is there, by `performance.now()`. */
function taker(url: string, tools: readonly string[]): Map<string, number> {
  const startedAt = new Map<string, number>();
  const handler = (_: unknown, { idempotencyKey }: { readonly idempotencyKey: string }) => {
    startedAt.set(idempotencyKey, performance.now());
    return "taken";
  };
  nodes.client(url).worker({
    name: "taker",
    concurrency: 1_000,
    tools: Object.fromEntries(tools.map((tool) => [tool, handler])),
  });
  return startedAt;
}

const names = (kind: string): string[] => Array.from({ length: VICTIMS }, (_, index) => `${kind}-${index}`);

/** Workers that hold calls, each of a tool of its own, and what is done to each at a moment of its own. */
async function takenOver(kind: string, how: (worker: WorkerProcess) => unknown): Promise<number[]> {
  const node = await nodes.start({ heartbeatInterval });
  const run = await nodes.client(node.url).runs.create();
  const tools = names(kind);
  const victims = tools.map((tool) => new WorkerProcess({ url: node.url, name: tool, tools: [tool] }));
  try {
    await Promise.all(victims.map((victim) => attached(nodes.database, victim)));
    const held = await Promise.all(
      victims.map(async (victim) => {
        const opening = Array.from({ length: CALLS_EACH }, () => run.open(victim.name, [{ wait: "ever" }]));
        const calls = await Promise.all(opening);
        for (const call of calls) await victim.told("waiting", call.id);
        return { victim, calls };
      }),
    );
    const startedAt = taker(node.url, tools);
    const tookMs = await Promise.all(
      held.map(async ({ victim, calls }) => {
        await somewhereWithin(10_000);
        const from = performance.now();
        await how(victim);
        const outcomes = await Promise.all(calls.map((call) => call.outcome()));
        expect(outcomes.filter(({ result, attempt }) => result !== "taken" || attempt !== 2)).toEqual([]);
        return calls.map(({ id }) => (startedAt.get(id) ?? NaN) - from);
      }),
    );
    return tookMs.flat();
  } finally {
    await Promise.all(victims.map((victim) => victim.kill()));
  }
}

describe("with default timings", () => {
  test(
    "the retry calls of a worker that is killed run elsewhere within 12 s",
    { timeout: 120_000 },
    async () => {
      const tookMs = await takenOver("killed", (worker) => worker.kill());
      figure("killed worker: its calls run elsewhere after", spread(tookMs, "ms"));
      expect(Math.max(...tookMs)).toBeLessThan(12_000);
    },
  );

  test(
    "the calls of a worker that is stopped run elsewhere 60 s after it was last heard",
    { timeout: 180_000 },
    async () => {
      const tookMs = await takenOver("stopped", (worker) => worker.pause());
      figure("stopped worker: its calls run elsewhere after", spread(tookMs, "ms"));
      // It was heard at most an interval before it was stopped.
      expect(Math.min(...tookMs)).toBeGreaterThan(54_000);
      expect(Math.max(...tookMs)).toBeLessThan(63_000);
    },
  );

  test.each(["retry", "at_most_once"] as const)(
    "a %s claim that never reached its worker runs elsewhere within 3 s of the worker's death",
    { timeout: 120_000 },
    async (mode) => {
      const node = await nodes.start({ heartbeatInterval });
      const run = await nodes.client(node.url).runs.create();
      const tools = names(`unaccepted-${mode}`);
      const held = await Promise.all(
        tools.map(async (tool) => {
          const proxy = await nodes.balancer(node);
          const victim = new WorkerProcess({ url: proxy.url, name: tool, tools: [tool] });
          await attached(nodes.database, victim);
          proxy.hold("down");
          const call = await run.open(tool, [], { policy: { mode } });
          await until("the claim", async () => (await call.status()).state === "claimed");
          return { victim, call };
        }),
      );
      const startedAt = taker(node.url, tools);
      const tookMs = await Promise.all(
        held.map(async ({ victim, call }) => {
          await somewhereWithin(5_000);
          const from = performance.now();
          await victim.kill();
          expect(await call.outcome()).toMatchObject({ result: "taken", attempt: 2 });
          return (startedAt.get(call.id) ?? NaN) - from;
        }),
      );
      figure(`killed worker, ${mode} claim that was not accepted`, spread(tookMs, "ms"));
      expect(Math.max(...tookMs)).toBeLessThan(3_000);
    },
  );
});

describe("a node that is killed, with default timings", () => {
  test(
    "half of its 40 workers serve on another within 3 s, all within 8 s; what ran goes on, and nothing is spent",
    { timeout: 120_000 },
    async () => {
      const [one, two] = await Promise.all([
        nodes.start({ heartbeatInterval }),
        nodes.start({ heartbeatInterval }),
      ]);
      const balancer = await nodes.balancer(one);
      const starts = new Map<string, number[]>();
      const finish = new AbortController();
      const handler = async (input: string, { idempotencyKey }: { readonly idempotencyKey: string }) => {
        starts.set(idempotencyKey, [...(starts.get(idempotencyKey) ?? []), performance.now()]);
        while (input === "held" && !finish.signal.aborted) await lasting(20);
        return input;
      };
      const tools = Array.from({ length: 40 }, (_, index) => `of-worker-${index}`);
      const workers = tools.map((tool) =>
        nodes.client(balancer.url).worker({ name: tool, tools: { [tool]: handler } }),
      );
      await until("all workers are connected", () => workers.every(({ status }) => status === "connected"));
      const run = await nodes.client(two.url).runs.create();
      const held = await Promise.all(
        tools.flatMap((tool) =>
          (["retry", "at_most_once"] as const).map((mode) => run.open(tool, "held", { policy: { mode } })),
        ),
      );
      await until("all handlers run", () => starts.size === held.length);
      balancer.aim(two.port);
      await one.kill();
      const killedAt = performance.now();
      // Each can be run by one worker alone, and only once that one is here.
      const calls = await Promise.all(tools.map((tool) => run.open(tool, "new")));
      await Promise.all(calls.map((call) => call.outcome()));
      const servedAt = calls.map(({ id }) => (starts.get(id)?.[0] ?? NaN) - killedAt).sort((a, b) => a - b);
      figure("killed node: a worker serves on the other after", spread(servedAt, "ms"));
      finish.abort();
      for (const call of [...held, ...calls]) {
        expect(await call.outcome()).toMatchObject({ state: "succeeded", attempt: 1 });
        expect(await call.status()).toMatchObject({ spent: 1 });
        expect(starts.get(call.id)).toHaveLength(1);
      }
      expect(servedAt[19]).toBeLessThan(3_000);
      expect(servedAt[39]).toBeLessThan(8_000);
    },
  );
});
