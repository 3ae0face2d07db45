import { describe, expect, test } from "vitest";
import type { CallHandle } from "@trunkline/sdk";
import { useStack } from "../support/stack.js";
import { throughout, until } from "../support/until.js";
import type { Step, WorkerProcess } from "../support/worker-process.js";

const stack = useStack();

const LEASE_MS = 1_000;
const POLICY = { heartbeatTimeout: `${LEASE_MS}ms`, detachGrace: "500ms" } as const;

/** A call that a worker has deferred, and another worker that has nothing to do. */
async function deferred(
  tool: string,
  steps: readonly Step[],
): Promise<{ call: CallHandle; token: string; a: WorkerProcess; idle: WorkerProcess } & AsyncDisposable> {
  const a = await stack.worker({ name: `${tool}_A`, tools: [tool] });
  const run = await stack.client.runs.create();
  const call = await run.open(tool, steps, { policy: POLICY });
  const { token } = await a.told("deferred", call.id);
  const idle = await stack.worker({ name: `${tool}_idle`, tools: [tool] });
  return {
    ...{ call, token, a, idle },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([a.kill(), idle.kill()]);
    },
  };
}

/** Six leases long nobody else gets the call; then the token answers it. */
async function waitsForItsToken(
  { call, token, a, idle }: { call: CallHandle; token: string; a: WorkerProcess; idle: WorkerProcess },
  leases = 6,
): Promise<void> {
  await throughout(leases * LEASE_MS, async () => {
    expect(await call.status()).toMatchObject({ state: "deferred", attempt: 1 });
  });
  await stack.client.tasks.complete(token, "done");
  expect(await call.outcome()).toMatchObject({ state: "succeeded", attempt: 1, result: "done" });
  expect([await a.starts(call.id), await idle.starts(call.id)]).toEqual([1, 0]);
}

describe.concurrent("B10: a deferred call outlives every lease", () => {
  test("whose worker was killed", async () => {
    await using set = await deferred("killed", [{ defer: {} }]);
    await set.a.kill();
    await waitsForItsToken(set);
  });

  test("whose worker has stopped", async () => {
    await using set = await deferred("stopped", [{ defer: {} }]);
    set.a.stop();
    await set.a.ended;
    await waitsForItsToken(set);
  });

  test("whose handler goes on after it, until its worker is killed", async () => {
    await using set = await deferred("goes_on", [{ defer: {} }, { wait: "never" }]);
    await set.a.told("waiting", set.call.id);
    await set.a.kill();
    await waitsForItsToken(set);
  });

  test("whose handler threw after it; onError hears of that", async () => {
    await using set = await deferred("threw", [{ defer: {} }, { throw: "after all" }]);
    expect(await set.a.told("error", set.call.id)).toMatchObject({ message: "Error: after all" });
    await waitsForItsToken(set, 3);
  });

  test("whose handler returned a value after it; onError hears of that", async () => {
    await using set = await deferred("returned", [{ defer: {} }, { return: "no answer" }]);
    expect(await set.a.told("error", set.call.id)).toMatchObject({ reason: "CALL_DEFERRED" });
    await waitsForItsToken(set, 3);
  });
});

describe.concurrent("B10: the lease of a deferred call", () => {
  test("is not brought back by heartbeats that were under way when the deferral was stored", async () => {
    const tool = "late_heartbeat";
    await using proxy = await stack.proxy();
    await using a = await stack.worker({ name: `${tool}_A`, tools: [tool], url: proxy.url });
    const run = await stack.client.runs.create();
    const call = await run.open(tool, [{ wait: "now" }, { defer: {} }], { policy: POLICY });
    await a.told("waiting", call.id);
    await using idle = await stack.worker({ name: `${tool}_idle`, tools: [tool] });
    // The reply is held, so that the worker goes on naming the claim.
    proxy.hold("down");
    a.go("now");
    await stack.inState(call.id, "deferred");
    const { rows } = await stack.database.pool().query("SELECT now() AS at");
    await until("the server hears of the worker again", async () => {
      const seen = await stack.database
        .pool()
        .query("SELECT FROM sessions WHERE worker = $1 AND last_heard_at > $2", [a.name, rows[0].at]);
      return seen.rows.length > 0;
    });
    proxy.release();
    const { token } = await a.told("deferred", call.id);
    await waitsForItsToken({ call, token, a, idle }, 3);
    expect(a.errors).toEqual([]);
  });

  test("does not end it: its own timeout does, though its worker is dead", async () => {
    const tool = "timed";
    await using a = await stack.worker({ name: tool });
    const run = await stack.client.runs.create();
    const call = await run.open(tool, [{ defer: { timeout: "3s" } }], { policy: POLICY });
    const { expiresAt } = await a.told("deferred", call.id);
    await a.kill();
    const outcome = await call.outcome();
    expect(outcome).toMatchObject({ state: "failed", attempt: 1, error: { kind: "defer_timeout" } });
    const late = (outcome.endedAt?.getTime() ?? 0) - (expiresAt ?? 0);
    expect(late).toBeGreaterThanOrEqual(0);
    expect(late).toBeLessThan(2_000);
  });
});
