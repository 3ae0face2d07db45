import pg from "pg";
import { describe, expect, test, vi } from "vitest";
import type { CallRef } from "../../server/src/core/call.js";
import { sweepDue } from "../../server/src/maintenance/due.js";
import { renew, sweepLeases } from "../../server/src/maintenance/leases.js";
import { Maintenance } from "../../server/src/maintenance/maintenance.js";
import { reconcile } from "../../server/src/maintenance/reconcile.js";
import { sweepRetention } from "../../server/src/maintenance/retention.js";
import { endRun } from "../../server/src/exchange/run-end.js";
import { openAccess } from "../support/access.js";
import { until } from "../support/until.js";
import {
  attach,
  newName,
  newRun,
  open,
  result,
  SCOPE,
  useExchanges,
  type Worker,
} from "../exchange/support/exchanges.js";

const nodes = useExchanges();

const retryable = {
  type: "failure" as const,
  failure: {
    kind: "tool" as const,
    message: "again",
    dataJson: null,
    retryable: true,
    outcomeUnknown: false,
  },
};

/** Puts times of the past into the past by so much more, as if it had passed. */
async function pass(
  table: "calls" | "sessions" | "runs" | "nodes",
  ms: number,
  where: string,
  ...values: unknown[]
): Promise<void> {
  const columns = {
    calls: ["claimed_at", "ready_at", "attempt_timeout_at", "total_timeout_at", "defer_timeout_at", "due_at"],
    sessions: ["last_heard_at", "detached_at"],
    runs: ["expires_at", "due_at", "ended_at", "created_at"],
    nodes: ["renewed_at"],
  }[table];
  const sets = columns.map((column) => `${column} = ${column} - $1 * interval '1 millisecond'`);
  await nodes.database.pool().query(`UPDATE ${table} SET ${sets.join(", ")} WHERE ${where}`, [ms, ...values]);
}

const agedCall = (ms: number, { runId, seq }: CallRef): Promise<void> =>
  pass("calls", ms, "run_id = $2 AND seq = $3", runId, seq);

/** The floor as if nodes had always been alive. */
const lowerFloor = (): Promise<unknown> =>
  nodes.database.pool().query("UPDATE lease_floor SET floor_at = now() - interval '1 day'");

const agedSession = (ms: number, worker: Worker): Promise<void> =>
  pass("sessions", ms, "id = $2", worker.own.number);

describe("the due sweep", () => {
  test("a backoff that is over makes its call claimable, and the node's workers get it", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool] });
    const call = await open(exchange, await newRun(exchange), { tool });
    const { claim } = (await worker.offerOf(call)).call;
    await exchange.apply(call, { type: "answer", claimId: claim.id, answer: retryable }, SCOPE);
    await sweepDue(exchange);
    expect(worker.offers).toHaveLength(1);
    await agedCall(60_000, call);
    await sweepDue(exchange);
    expect((await worker.offerOf(call, 2)).call).toMatchObject({ attempt: 2, spent: 2 });
  });

  test("a time that passed for one attempt does not end the next", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool] });
    const policy = { attemptTimeoutMs: 60_000, backoffInitialMs: 1 };
    const call = await open(exchange, await newRun(exchange), { tool, policy });
    const first = await worker.offerOf(call);
    await agedCall(120_000, call);
    // The attempt fails by its worker's word while the sweep has it in hand.
    await Promise.all([
      exchange.apply(call, { type: "answer", claimId: first.call.claim.id, answer: retryable }, SCOPE),
      sweepDue(exchange),
    ]);
    await agedCall(10, call);
    await sweepDue(exchange);
    await worker.offerOf(call, 2);
    const again = exchange.sessions.recall(call);
    expect(again?.attempt).toBe(2);
    const stale = { type: "due", ready: false, attempt: true, defer: false, total: false } as const;
    expect(await exchange.applyAsRead(first.call, stale)).toBeUndefined();
    expect(await nodes.call(call)).toMatchObject({ state: "claimed", attempt: 2 });
  });

  test("a run whose TTL has passed ends, and its calls with it", async () => {
    const { exchange } = await nodes.start();
    const run = await newRun(exchange, { ttlMs: 60_000 });
    const call = await open(exchange, run);
    await pass("runs", 61_000, "id = $2", run.record.id);
    await sweepDue(exchange);
    expect(await nodes.call(call)).toMatchObject({
      state: "canceled",
      failure: { message: "the run's TTL passed" },
    });
  });

  test("a TTL that is set here brings the sweep forward", async () => {
    const { exchange } = await nodes.start();
    const told: number[] = [];
    exchange.onDue((inMs) => told.push(inMs));
    await newRun(exchange, { ttlMs: 700 });
    await newRun(exchange);
    expect(told).toEqual([700]);
  });

  test("the end of a run with very many calls does not hold up what else is due", async () => {
    const { exchange } = await nodes.start();
    const [large, small] = await Promise.all([newRun(exchange), newRun(exchange)]);
    let finish = (): void => undefined;
    const ending = exchange.runEndings.join(
      large.record.id,
      () =>
        new Promise((resolve) => {
          finish = resolve;
        }),
    );
    await nodes.database
      .pool()
      .query("UPDATE runs SET state = 'ended', ended_at = now(), due_at = now() WHERE id = $1", [
        large.record.id,
      ]);
    await sweepDue(exchange);
    const late = await open(exchange, small, { policy: { totalTimeoutMs: 60_000 } });
    await agedCall(61_000, late);
    await sweepDue(exchange);
    expect((await nodes.call(late)).state).toBe("failed");
    finish();
    await ending;
  });

  test("what a node that died left of a run's end is done by another", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const run = await newRun(one.exchange);
    const call = await open(one.exchange, run);
    await nodes.database
      .pool()
      .query("UPDATE runs SET state = 'ended', ended_at = now(), due_at = now() WHERE id = $1", [
        run.record.id,
      ]);
    await sweepDue(two.exchange);
    expect((await nodes.call(call)).state).toBe("canceled");
    const { rows } = await nodes.database
      .pool()
      .query("SELECT due_at FROM runs WHERE id = $1", [run.record.id]);
    expect(rows).toEqual([{ due_at: null }]);
  });

  test("two nodes that sweep at once end each due call once", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const run = await newRun(one.exchange);
    const calls = await Promise.all(
      Array.from({ length: 50 }, () => open(one.exchange, run, { policy: { totalTimeoutMs: 60_000 } })),
    );
    await pass("calls", 61_000, "run_id = $2", run.record.id);
    await Promise.all([sweepDue(one.exchange), sweepDue(two.exchange)]);
    for (const call of calls) {
      expect(await nodes.call(call)).toMatchObject({
        state: "failed",
        version: 2,
        failure: { kind: "total_timeout" },
      });
    }
  });

  test("a sweep that cannot reach the database fails, and nothing is thrown beside it", async () => {
    const { exchange, close } = await nodes.start();
    await close();
    await expect(sweepDue(exchange)).rejects.toThrow();
  });
});

describe("leases", () => {
  test("a claim whose session was not heard of for the heartbeat timeout is lost", async () => {
    const { exchange } = await nodes.start();
    await lowerFloor();
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool], slots: 1 });
    const call = await open(exchange, await newRun(exchange), {
      tool,
      policy: { heartbeatTimeoutMs: 30_000 },
    });
    const { claim } = (await worker.offerOf(call)).call;
    await agedCall(40_000, call);
    await sweepLeases(exchange);
    expect((await nodes.call(call)).state).toBe("claimed");
    await agedSession(40_000, worker);
    await sweepLeases(exchange);
    expect(await nodes.call(call)).toMatchObject({ state: "queued", claim_standing: "lapsed" });
    expect(worker.revoked).toEqual([{ claimId: claim.id, cause: "lease_lost" }]);
    expect(worker.own.held.size).toBe(0);
  });

  test("a renewal keeps a claim by when its worker was heard, not by now", async () => {
    const { exchange } = await nodes.start();
    await lowerFloor();
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool], slots: 1 });
    const call = await open(exchange, await newRun(exchange), {
      tool,
      policy: { heartbeatTimeoutMs: 30_000 },
    });
    await worker.offerOf(call);
    await agedCall(40_000, call);
    await agedSession(40_000, worker);
    await renew(exchange);
    await sweepLeases(exchange);
    expect((await nodes.call(call)).state).toBe("claimed");
    worker.own.heardAt -= 40_000;
    await agedSession(40_000, worker);
    await renew(exchange);
    await sweepLeases(exchange);
    expect((await nodes.call(call)).state).toBe("queued");
  });

  test("the claims of a node that died are lost on another, after the grace", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    await lowerFloor();
    const tool = newName("tool");
    const worker = await attach(one.exchange, { tools: [tool], slots: 1 });
    const policy = { heartbeatTimeoutMs: 600_000, detachGraceMs: 5_000 };
    const call = await open(one.exchange, await newRun(one.exchange), { tool, policy });
    await worker.offerOf(call);
    await one.close();
    await agedCall(60_000, call);
    await pass("nodes", 4_000, "id = $2", one.exchange.nodeId);
    await sweepLeases(two.exchange);
    expect((await nodes.call(call)).state).toBe("claimed");
    await pass("nodes", 60_000, "id = $2", one.exchange.nodeId);
    await sweepLeases(two.exchange);
    expect(await nodes.call(call)).toMatchObject({ state: "queued", spent: 1 });
  });

  test("after a time without any node all leases start anew", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool], slots: 1 });
    const call = await open(exchange, await newRun(exchange), {
      tool,
      policy: { heartbeatTimeoutMs: 30_000 },
    });
    await worker.offerOf(call);
    await agedCall(120_000, call);
    await agedSession(120_000, worker);
    await pass("nodes", 120_000, "true");
    await sweepLeases(exchange);
    expect((await nodes.call(call)).state).toBe("claimed");
    await nodes.database.pool().query("DELETE FROM nodes");
  });
});

describe("reconciliation", () => {
  test("a claim that this node does not know is taken back, and spent stays", async () => {
    const { exchange } = await nodes.start({ heartbeatIntervalMs: 1_000 });
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool], slots: 1 });
    const call = await open(exchange, await newRun(exchange), { tool });
    const { claim } = (await worker.offerOf(call)).call;
    exchange.sessions.drop(worker.own.held.get(claim.id)!, null);
    await reconcile(exchange);
    expect((await nodes.call(call)).state).toBe("claimed");
    await agedCall(2_000, call);
    await reconcile(exchange);
    expect(await nodes.call(call)).toMatchObject({ state: "queued", claim_standing: "lapsed", spent: 1 });
  });

  test("a claim that the database does not have is revoked; one that it has is kept", async () => {
    const { exchange } = await nodes.start({ heartbeatIntervalMs: 1 });
    const tool = newName("tool");
    const worker = await attach(exchange, { tools: [tool], slots: 2 });
    const run = await newRun(exchange);
    const calls = await Promise.all([open(exchange, run, { tool }), open(exchange, run, { tool })]);
    const claims = await Promise.all(calls.map(async (call) => (await worker.offerOf(call)).call.claim));
    await nodes.database.pool().query(
      `UPDATE calls SET state = 'queued', claim_standing = 'lapsed', version = version + 1
        WHERE run_id = $1 AND seq = $2`,
      [calls[0].runId, calls[0].seq],
    );
    await until("the second look", async () => {
      await reconcile(exchange);
      return worker.revoked.length > 0;
    });
    expect(worker.revoked).toEqual([{ claimId: claims[0]!.id, cause: "lease_lost" }]);
    expect([...worker.own.held.keys()]).toEqual([claims[1]!.id]);
  });
});

describe("retention", () => {
  test("ended runs older than the age are deleted, with their calls; others stay", async () => {
    const { exchange } = await nodes.start();
    const [old, young, active] = await Promise.all([newRun(exchange), newRun(exchange), newRun(exchange)]);
    for (const run of [old, young, active]) await open(exchange, run);
    for (const run of [old, young]) await endRun(exchange, SCOPE, run.record.id);
    await pass("runs", 100_000, "id = $2", old.record.id);
    await sweepRetention(exchange, 50_000);
    const { rows } = await nodes.database
      .pool()
      .query<{ id: string }>(
        "SELECT r.id FROM runs r JOIN calls c ON c.run_id = r.id WHERE r.id = ANY ($1)",
        [[old, young, active].map(({ record }) => record.id)],
      );
    expect(rows.map(({ id }) => id).sort()).toEqual([young.record.id, active.record.id].sort());
  });
});

describe("where runs are kept for ever", () => {
  test("sessions and nodes of which nothing was heard for a day are deleted, those that hold a claim stay", async () => {
    const { exchange } = await nodes.start();
    const tool = newName("tool");
    const [gone, holding, fresh] = await Promise.all([
      attach(exchange, { tools: [newName("tool")] }),
      attach(exchange, { tools: [tool] }),
      attach(exchange, { tools: [newName("tool")] }),
    ]);
    await open(exchange, await newRun(exchange), { tool });
    await until("the call is held", () => holding.own.held.size === 1);
    const day = 24 * 60 * 60 * 1000;
    for (const worker of [gone, holding]) await agedSession(day + 1_000, worker);
    await agedSession(day - 60_000, fresh);
    await nodes.database.pool().query(
      `INSERT INTO nodes (id, name, interval_ms, renewed_at)
        VALUES ('long dead', '', 200, now() - interval '25 hours'), ('just dead', '', 200, now() - interval '23 hours')`,
    );
    await sweepRetention(exchange, null);
    const sessions = await nodes.database
      .pool()
      .query<{ id: number }>("SELECT id::int FROM sessions WHERE id = ANY ($1)", [
        [gone, holding, fresh].map(({ own }) => own.number),
      ]);
    expect(sessions.rows.map(({ id }) => id).sort()).toEqual(
      [holding, fresh].map(({ own }) => own.number).sort(),
    );
    const { rows } = await nodes.database.pool().query("SELECT id FROM nodes WHERE id LIKE '% dead'");
    expect(rows).toEqual([{ id: "just dead" }]);
    expect(
      (await nodes.database.pool().query("SELECT FROM nodes WHERE id = $1", [exchange.nodeId])).rowCount,
    ).toBe(1);
  });
});

describe("all upkeep", () => {
  test("short backoffs are met to the tenth of a second, and an idle node sends few statements", async () => {
    const { exchange, faults } = await nodes.start({ heartbeatIntervalMs: 1_000 });
    const maintenance = new Maintenance({
      exchange,
      retentionMs: null,
      access: await openAccess(exchange.db, { rootKey: null }),
      onError: (error) => expect.fail(String(error)),
    });
    maintenance.start();
    try {
      const tool = newName("tool");
      const worker = await attach(exchange, { tools: [tool] });
      const policy = { backoffInitialMs: 150, backoffFactor: 1, backoffMaxMs: 150, maxAttempts: 4 };
      const call = await open(exchange, await newRun(exchange), { tool, policy });
      const at: number[] = [];
      for (let attempt = 1; attempt <= 4; attempt++) {
        const { claim } = (await worker.offerOf(call, attempt)).call;
        at.push(performance.now());
        await exchange.apply(call, { type: "answer", claimId: claim.id, answer: retryable }, SCOPE);
      }
      expect((await nodes.call(call)).state).toBe("failed");
      const pauses = at.slice(1).map((each, index) => each - at[index]!);
      expect(Math.min(...pauses)).toBeGreaterThan(70);
      expect(Math.max(...pauses)).toBeLessThan(600);
      expect(await statementsDuring(2_000)).toBeLessThan(30);
      expect(faults).toEqual([]);
    } finally {
      await maintenance.stop();
    }
  });

  test("what another node queues is handed out within a second", async () => {
    const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
    const maintenance = new Maintenance({
      exchange: two.exchange,
      retentionMs: null,
      access: await openAccess(two.exchange.db, { rootKey: null }),
      onError: () => undefined,
    });
    maintenance.start();
    try {
      const tool = newName("tool");
      const worker = await attach(two.exchange, { tools: [tool] });
      const call = await open(one.exchange, await newRun(one.exchange), { tool });
      const queuedAt = performance.now();
      const { claim } = (await worker.offerOf(call)).call;
      expect(performance.now() - queuedAt).toBeLessThan(1_000);
      await two.exchange.apply(call, { type: "answer", claimId: claim.id, answer: result("1") }, SCOPE);
    } finally {
      await maintenance.stop();
    }
  });
});

/** Statements that this process sends while so much time passes. */
async function statementsDuring(ms: number): Promise<number> {
  const sent = vi.spyOn(pg.Client.prototype, "query");
  try {
    const endsAt = performance.now() + ms;
    await until("the time has passed", () => performance.now() > endsAt);
    return sent.mock.calls.length;
  } finally {
    sent.mockRestore();
  }
}
