import { describe, expect, test } from "vitest";
import type { ToolContext } from "@trunkline/sdk";
import { gate } from "../client/support/claim.js";
import { attached } from "../support/stack.js";
import { until } from "../support/until.js";
import { WorkerProcess } from "../support/worker-process.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();

describe("when a node is killed (kill -9)", () => {
  test.each(["retry", "at_most_once"] as const)(
    "a running handler under %s goes on, its worker re-attaches on another node, and its answer counts (B12, S21)",
    async (mode) => {
      const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
      const balancer = await nodes.balancer(one);
      const finish = gate();
      const starts: number[] = [];
      const tool = `slow_${mode}`;
      const worker = nodes.client(balancer.url).worker({
        tools: {
          [tool]: async (input: unknown, { attempt, signal }: ToolContext) => {
            starts.push(attempt);
            await finish.promise;
            return { input, aborted: signal.aborted };
          },
        },
        concurrency: 3,
      });
      // Another one that would be glad to run them.
      const idle = nodes.client(two.url).worker({ tools: { [`other_${mode}`]: () => 1 } });
      const harness = nodes.client(two.url);
      const run = await harness.runs.create();
      const calls = await Promise.all(
        [0, 1, 2, 3, 4, 5].map((input) => run.open(tool, input, { policy: { mode } })),
      );
      await until("three handlers run", () => starts.length === 3);
      balancer.aim(two.port);
      await one.kill();
      await until("the worker is attached to the other node", async () => {
        const { rows } = await nodes.database
          .pool()
          .query<{ epoch: number }>("SELECT epoch FROM sessions WHERE worker = $1", [worker.name]);
        return rows.some(({ epoch }) => epoch > 1);
      });
      // Longer than the dead node counts as alive.
      await until("the dead node is known to be dead", async () => {
        const { rows } = await nodes.database
          .pool()
          .query("SELECT FROM nodes WHERE renewed_at > now() - interval '700 milliseconds'");
        return rows.length === 1;
      });
      expect(worker.status).toBe("connected");
      finish.open();
      const outcomes = await Promise.all(calls.map((call) => call.outcome()));
      expect(outcomes.map(({ result }) => result)).toEqual(
        [0, 1, 2, 3, 4, 5].map((input) => ({ input, aborted: false })),
      );
      const ended = await Promise.all(calls.map((call) => call.status()));
      expect(ended.map(({ attempt, spent }) => ({ attempt, spent }))).toEqual(
        calls.map(() => ({ attempt: 1, spent: 1 })),
      );
      expect(starts).toEqual([1, 1, 1, 1, 1, 1]);
      await Promise.all([worker.stop(), idle.stop()]);
      expect(two.faults).toEqual([]);
    },
  );

  test("what a worker held that died with it runs elsewhere, or fails as unknown where it must not run twice (I3)", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    await using worker = new WorkerProcess({ url: one.url, name: "doomed", tools: ["doomed"] });
    await attached(nodes.database, worker);
    const run = await nodes.client(two.url).runs.create();
    const lease = { heartbeatTimeout: "2s", detachGrace: "1s" } as const;
    const open = (mode: "retry" | "at_most_once") =>
      run.open("doomed", [{ wait: "for ever" }], { policy: { ...lease, mode } });
    const [again, once] = await Promise.all([open("retry"), open("at_most_once")]);
    for (const call of [again, once]) await worker.told("waiting", call.id);
    const taken: string[] = [];
    nodes.client(two.url).worker({
      tools: { doomed: (_: unknown, { idempotencyKey }: ToolContext) => taken.push(idempotencyKey) },
    });
    await Promise.all([one.kill(), worker.kill()]);
    expect(await again.outcome()).toMatchObject({ state: "succeeded", attempt: 2 });
    expect(await once.outcome()).toMatchObject({
      state: "failed",
      error: { kind: "worker_lost", outcomeUnknown: true },
    });
    expect(taken).toEqual([again.id]);
  });

  test("half of its workers serve on another within 3 s, all within 8 s, spread and not in one moment", async () => {
    const heartbeatInterval = "5s";
    const [one, two] = await Promise.all([
      nodes.start({ heartbeatInterval }),
      nodes.start({ heartbeatInterval }),
    ]);
    const balancer = await nodes.balancer(one);
    const workers = Array.from({ length: 60 }, () =>
      nodes.client(balancer.url).worker({ tools: { echo: String } }),
    );
    await until("all workers are connected", () => workers.every(({ status }) => status === "connected"));
    balancer.aim(two.port);
    const connected = balancer.connections;
    await one.kill();
    const killedAt = performance.now();
    const movedAt: number[] = [];
    await until("all workers are on the other node", async () => {
      const { rows } = await nodes.database
        .pool()
        .query("SELECT FROM sessions WHERE state = 'attached' AND epoch > 1");
      while (movedAt.length < rows.length) movedAt.push(performance.now() - killedAt);
      return movedAt.length === workers.length;
    });
    expect(movedAt[29]).toBeLessThan(3_000);
    expect(movedAt[59]).toBeLessThan(8_000);
    const inOneSecond = movedAt.map(
      (at) => movedAt.filter((other) => other >= at && other < at + 1_000).length,
    );
    expect(Math.max(...inOneSecond)).toBeLessThan(30);
    // One connection each: nobody hammered.
    expect(balancer.connections - connected).toBe(workers.length);
    await Promise.all(workers.map((worker) => worker.stop()));
  });
});
