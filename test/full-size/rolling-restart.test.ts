import { expect, test } from "vitest";
import type { Outcome, Run } from "@trunkline/sdk";
import { expectEachRanOnce, startCountedWorkers } from "../nodes/support/counted-workers.js";
import { useNodes } from "../nodes/support/nodes.js";
import { figure, spread } from "../support/full-size.js";
import { lasting } from "../support/until.js";

const nodes = useNodes();

const NODES = 3;
const HARNESSES = 6;
const CALLS_PER_SECOND = 500;
/** How often calls are opened, as many as are due. */
const TICK_MS = 10;
/** Load before, between and after the restarts. */
const STEADY_MS = 10_000;
const P99_MS = 2_000;

/** Everything that became of the calls. */
class Load {
  readonly outcomes: Outcome[] = [];
  /** From the opening to the outcome, without what the handler takes. */
  readonly tookMs: number[] = [];
  readonly failures: unknown[] = [];
  readonly #runs: readonly Run[];
  #goOn = true;
  #opened = 0;

  constructor(runs: readonly Run[]) {
    this.#runs = runs;
  }

  /** Opens calls at the given rate, however long they take, until it is stopped; resolves when all have ended. */
  async drive(): Promise<void> {
    const startedAt = performance.now();
    const under = new Set<Promise<void>>();
    while (this.#goOn) {
      const due = Math.floor(((performance.now() - startedAt) / 1_000) * CALLS_PER_SECOND);
      for (; this.#opened < due; this.#opened++) {
        const one = this.#call(this.#opened).finally(() => under.delete(one));
        under.add(one);
      }
      await lasting(TICK_MS);
    }
    await Promise.all(under);
  }

  stop(): void {
    this.#goOn = false;
  }

  async #call(index: number): Promise<void> {
    const openedAt = performance.now();
    const handlerMs = 50 + ((index * 7) % 200);
    try {
      // Half of them must not be run twice.
      const mode = index % 2 === 0 ? "retry" : "at_most_once";
      const run = this.#runs[index % this.#runs.length]!;
      const call = await run.open("work", handlerMs, { policy: { mode } });
      this.outcomes.push(await call.outcome());
      this.tookMs.push(performance.now() - openedAt - handlerMs);
    } catch (error) {
      this.failures.push(error);
    }
  }
}

test("a rolling restart of three nodes under 500 calls/s fails no call, burns no attempt, and keeps p99 under 2 s (B13 c)", async () => {
  const options = { heartbeatInterval: "5s" };
  const servers = await Promise.all(Array.from({ length: NODES }, () => nodes.start(options)));
  const balancer = await nodes.balancer(...servers);
  const workers = startCountedWorkers(nodes, balancer.url, 20);
  const harnesses = Array.from({ length: HARNESSES }, () => nodes.client(balancer.url));
  const load = new Load(await Promise.all(harnesses.map(({ runs }) => runs.create())));
  const driving = load.drive();
  await lasting(STEADY_MS);
  figure(
    "before the restarts, while everything warms up, beyond the handler's time",
    spread(load.tookMs, "ms"),
  );
  const warm = load.tookMs.length;
  for (const server of servers) {
    const stopAt = performance.now();
    expect((await server.stop())?.status).toBe(0);
    const downAt = performance.now();
    await lasting(STEADY_MS / 2);
    await server.start();
    figure("a node stopped in", `${Math.round(downAt - stopAt)} ms`);
    await lasting(STEADY_MS);
  }
  load.stop();
  await driving;
  const { outcomes, tookMs, failures } = load;
  figure("calls", outcomes.length);
  figure("from the first restart on, beyond the handler's time", spread(tookMs.slice(warm), "ms"));
  figure("all, beyond the handler's time", spread(tookMs, "ms"));
  figure("above 2 s", tookMs.filter((ms) => ms > P99_MS).length);
  await workers.stop();
  expect(failures).toEqual([]);
  await expectEachRanOnce(nodes, workers, outcomes);
  expect(servers.flatMap(({ faults }) => faults)).toEqual([]);
  tookMs.sort((a, b) => a - b);
  expect(tookMs[Math.floor(tookMs.length * 0.99)]).toBeLessThan(P99_MS);
}, 300_000);
