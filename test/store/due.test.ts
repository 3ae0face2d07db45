import { describe, expect, test } from "vitest";
import { resolvePolicy } from "../../server/src/core/policy.js";
import type { Call } from "../../server/src/core/call.js";
import { nextDue, takeDue } from "../../server/src/store/due.js";
import { apply, makeRun, makeSession, openCall, reload, useStore } from "./fixture.js";

const store = useStore();

const policy = resolvePolicy(
  { attemptTimeoutMs: 60_000, totalTimeoutMs: 120_000, deferTimeoutMs: 30_000, backoffInitialMs: 9_000 },
  {},
  1_000,
);

/** Lets so much time pass for one call. */
async function pass(call: Call, seconds: number): Promise<void> {
  const columns = ["ready_at", "attempt_timeout_at", "total_timeout_at", "defer_timeout_at", "due_at"];
  const moved = columns.map((column) => `${column} = ${column} - $2 * interval '1 s'`).join(", ");
  await store.database.pool().query(`UPDATE calls SET ${moved} WHERE run_id = $1`, [call.runId, seconds]);
}

async function openClaimed(): Promise<Call> {
  const session = await makeSession(store.db);
  return openCall(store.db, await makeRun(store.db), 1, { session, policy });
}

describe("takeDue", () => {
  test("tells which of a call's due times have passed, and takes none that has not", async () => {
    const held = await openClaimed();
    expect(await takeDue(store.db, 10)).toEqual([]);
    await pass(held, 61);
    const flags = { ready: false, attempt: true, defer: false, total: false };
    expect(await takeDue(store.db, 10)).toEqual([{ call: held, ...flags }]);
    await pass(held, 61);
    expect(await takeDue(store.db, 10)).toEqual([{ call: held, ...flags, total: true }]);
    await apply(store.db, held, { type: "cancel", cause: "canceled" });
  });

  test("leases a call for five seconds, changes nothing of it, and then gives it to any node (I6)", async () => {
    const held = await openClaimed();
    await pass(held, 61);
    expect(await takeDue(store.db, 10)).toHaveLength(1);
    expect(await reload(store.db, held)).toEqual(held);
    expect(await takeDue(store.other, 10)).toEqual([]);
    await pass(held, 5);
    expect(await takeDue(store.other, 10)).toHaveLength(1);
    const failed = await apply(store.db, held, {
      type: "due",
      ready: false,
      attempt: true,
      defer: false,
      total: false,
    });
    await pass(failed, 9);
    expect(await takeDue(store.db, 10)).toMatchObject([{ call: failed, ready: true, attempt: false }]);
    await apply(store.db, failed, { type: "cancel", cause: "canceled" });
  });

  test("passes over a call that another node is at, without waiting for it", async () => {
    const held = await openClaimed();
    await pass(held, 61);
    await store.other.transaction(async (tx) => {
      expect(await takeDue(tx, 10)).toHaveLength(1);
      expect(await takeDue(store.db, 10)).toEqual([]);
    });
    await apply(store.db, held, { type: "cancel", cause: "canceled" });
  });

  test("never gives one call to two nodes at once", async () => {
    const calls: Call[] = [];
    for (let count = 0; count < 30; count++) calls.push(await openClaimed());
    for (const call of calls) await pass(call, 61);
    const sweep = (db = store.db): Promise<string[]> =>
      takeDue(db, 4).then((taken) => taken.map(({ call }) => call.runId));
    const taken = await Promise.all(
      Array.from({ length: 8 }, (_, index) => sweep(index % 2 ? store.db : store.other)),
    );
    const seen = taken.flat();
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.length).toBe(30);
    for (const call of calls) await apply(store.db, call, { type: "cancel", cause: "canceled" });
  });
});

describe("nextDue", () => {
  test("is never with nothing to wait for, else the time until the first call and run, and 0 when one is late", async () => {
    expect(await nextDue(store.db)).toEqual({ callsMs: Infinity, runsMs: Infinity });
    const ttlMs = 10 * 365 * 86_400_000;
    const run = await makeRun(store.db, { ttlMs });
    const held = await openClaimed();
    const next = await nextDue(store.db);
    expect(next.runsMs).toBeGreaterThan(ttlMs - 60_000);
    expect(next.callsMs).toBeGreaterThan(0);
    expect(next.callsMs).toBeLessThanOrEqual(60_000);
    await pass(held, 61);
    expect((await nextDue(store.db)).callsMs).toBe(0);
    await apply(store.db, held, { type: "cancel", cause: "canceled" });
    await store.database
      .pool()
      .query("UPDATE runs SET due_at = now() - interval '1 second' WHERE id = $1", [run.id]);
    expect(await nextDue(store.db)).toEqual({ callsMs: Infinity, runsMs: 0 });
  });
});
