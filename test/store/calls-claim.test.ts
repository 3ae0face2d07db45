import { describe, expect, test } from "vitest";
import type { Call } from "../../server/src/core/call.js";
import { resolvePolicy } from "../../server/src/core/policy.js";
import { decide } from "../../server/src/core/transition.js";
import {
  claimQueued,
  whichAreFilled,
  type QueueFilter,
  type ClaimedRow,
  type ClaimGroup,
} from "../../server/src/store/calls-claim.js";
import { insertCalls } from "../../server/src/store/calls-insert.js";
import type { Database } from "../../server/src/store/database.js";
import { endRun } from "../../server/src/store/runs.js";
import { putToolset } from "../../server/src/store/toolsets.js";
import { allStatements, statement } from "../../server/src/store/statement.js";
import {
  apply,
  makeRun,
  makeSession,
  newName,
  newRow,
  openCall,
  PROJECT,
  reload,
  SCOPE,
  useStore,
  type TestSession,
} from "./fixture.js";

const store = useStore();

async function claim(
  db: Database,
  session: TestSession,
  count: number,
  group: Partial<ClaimGroup> & { readonly tools: readonly string[] },
): Promise<ClaimedRow[]> {
  const slots = Array.from({ length: count }, () => ({
    claimId: newName("claim"),
    session: session.number,
    epoch: session.epoch,
    worker: "worker-1",
  }));
  const outcome = await claimQueued(db, {
    projectId: PROJECT,
    namespace: null,
    toolset: null,
    servedLast: "",
    slots,
    ...group,
  });
  return [...outcome.claimed];
}

const seqs = (rows: readonly ClaimedRow[]): number[] => rows.map(({ record }) => record.call.seq);

describe("claimQueued", () => {
  test("hands out the highest priority first, then the longest queued, to the slots in their order", async () => {
    const run = await makeRun(store.db);
    const session = await makeSession(store.db);
    const [one, two] = [newName("tool"), newName("tool")];
    await insertCalls(store.db, [
      newRow(run, 1, { tool: one }),
      newRow(run, 2, { tool: two, priority: 5 }),
      newRow(run, 3, { tool: one, priority: -1 }),
      newRow(run, 4, { tool: two }),
      newRow(run, 5, { tool: one, priority: 5 }),
    ]);
    const rows = await claim(store.db, session, 4, { tools: [one, two] });
    expect(seqs(rows)).toEqual([2, 5, 1, 4]);
    expect(rows.map(({ slot }) => slot)).toEqual([0, 1, 2, 3]);
    expect(seqs(await claim(store.db, session, 4, { tools: [one, two] }))).toEqual([3]);
  });

  test("makes what the state machine makes, with the attempt's timeout and the payload", async () => {
    const run = await makeRun(store.db, { labels: { a: "b" } });
    const session = await makeSession(store.db);
    const tool = newName("tool");
    const policy = resolvePolicy({ attemptTimeoutMs: 9_000, mode: "at_most_once" }, {}, 1_000);
    const call = await openCall(store.db, run, 1, { tool, policy, inputJson: '{"a":1}' });
    const [row] = await claim(store.db, session, 1, { tools: [tool] });
    const claimId = row?.record.call.claim?.id ?? "";
    const made = decide(call, { type: "claim", claimId, session: session.number, worker: "worker-1" }, 0);
    expect(row?.record.call).toEqual(made.change?.next);
    expect(row?.record).toMatchObject({ inputJson: '{"a":1}', labels: { a: "b" }, progressJson: null });
    expect((row?.record.attemptTimeoutAt ?? 0) - (row?.record.claimedAt ?? 0)).toBe(9_000_000);
  });

  test("never hands one call to two slots, and leaves none, when two nodes claim at once (I3)", async () => {
    const run = await makeRun(store.db);
    const [one, two] = [await makeSession(store.db), await makeSession(store.db)];
    const tool = newName("tool");
    const count = 400;
    await insertCalls(
      store.db,
      Array.from({ length: count }, (_, index) => newRow(run, index + 1, { tool })),
    );
    const drain = async (db: Database, session: TestSession): Promise<number[]> => {
      const claimed: number[] = [];
      for (;;) {
        const rows = await claim(db, session, 7, { tools: [tool] });
        claimed.push(...seqs(rows));
        if (rows.length === 0) return claimed;
      }
    };
    const claimed = (await Promise.all([drain(store.db, one), drain(store.other, two)])).flat();
    expect(new Set(claimed).size).toBe(claimed.length);
    expect(claimed).toHaveLength(count);
  });

  test("that finds nothing writes nothing, and so waits for no disk", async () => {
    const session = await makeSession(store.db);
    const xid = statement("test_xid", "SELECT pg_current_xact_id_if_assigned()::text AS xid");
    const assigned = await store.db.transaction(async (tx) => {
      const { id: runId } = await makeRun(store.other);
      for (const bound of [{ namespace: null }, { namespace: "alice" }, { namespace: "alice", runId }]) {
        expect(await claim(tx, session, 3, { tools: [newName("tool")], ...bound })).toEqual([]);
      }
      return tx.query(xid, []);
    });
    expect(assigned).toEqual([{ xid: null }]);
  });

  test("passes over calls that another node is claiming, and takes the next ones", async () => {
    const run = await makeRun(store.db);
    const session = await makeSession(store.db);
    const tool = newName("tool");
    await insertCalls(
      store.db,
      Array.from({ length: 10 }, (_, index) => newRow(run, index + 1, { tool })),
    );
    const next = await store.other.transaction(async (tx) => {
      expect(seqs(await claim(tx, session, 5, { tools: [tool] }))).toEqual([1, 2, 3, 4, 5]);
      return claim(store.db, session, 5, { tools: [tool] });
    });
    expect(seqs(next)).toEqual([6, 7, 8, 9, 10]);
  });

  test("a session that is bound to an end user or a toolset is offered nobody else's calls (I7)", async () => {
    const toolset = newName("toolset");
    await putToolset(store.db, SCOPE, toolset, []);
    const [alice, bob] = [newName("alice"), newName("bob")];
    const tool = newName("tool");
    const session = await makeSession(store.db);
    const runs = [
      await makeRun(store.db, { namespace: alice }),
      await makeRun(store.db, { namespace: bob }),
      await makeRun(store.db, { namespace: bob, toolset }),
    ];
    await insertCalls(
      store.db,
      runs.map((run, index) => newRow(run, index + 1, { tool })),
    );
    const group = { tools: [tool], projectId: PROJECT + 1 };
    expect(await claim(store.db, session, 5, group)).toEqual([]);
    expect(seqs(await claim(store.db, session, 5, { tools: [tool], namespace: bob, toolset }))).toEqual([3]);
    expect(seqs(await claim(store.db, session, 5, { tools: [tool], namespace: bob }))).toEqual([2]);
    expect(await claim(store.db, session, 5, { tools: [tool], toolset })).toEqual([]);
    expect(seqs(await claim(store.db, session, 5, { tools: [tool] }))).toEqual([1]);
  });

  test("a read that asks whether there is something to claim sees what the claim would, and nothing else (I7)", async () => {
    const toolset = newName("toolset");
    await putToolset(store.db, SCOPE, toolset, []);
    const [alice, bob] = [newName("alice"), newName("bob")];
    const tool = newName("tool");
    const ofAlice = await makeRun(store.db, { namespace: alice });
    const ofBob = await makeRun(store.db, { namespace: bob, toolset });
    const second = await makeRun(store.db, { namespace: bob });
    await insertCalls(store.db, [newRow(ofBob, 1, { tool })]);
    const asked: [Partial<QueueFilter>, boolean][] = [
      [{}, true],
      [{ tool: newName("tool") }, false],
      [{ toolset }, true],
      [{ toolset: newName("toolset") }, false],
      [{ namespace: alice }, false],
      [{ namespace: bob }, true],
      [{ namespace: bob, toolset }, true],
      [{ namespace: bob, toolset: newName("toolset") }, false],
      [{ namespace: alice, runId: ofAlice.id }, false],
      [{ namespace: bob, runId: second.id }, false],
      [{ namespace: bob, runId: ofBob.id }, true],
      [{ namespace: alice, runId: ofBob.id }, false],
      [{ runId: ofBob.id, toolset }, true],
      [{ runId: ofBob.id, toolset: newName("toolset") }, false],
    ];
    const filters = asked.map(([filter]) => ({
      tool,
      namespace: null,
      runId: undefined,
      toolset: null,
      ...filter,
    }));
    expect(await whichAreFilled(store.db, PROJECT, filters)).toEqual(asked.map(([, filled]) => filled));
    expect(await whichAreFilled(store.db, PROJECT + 1, filters)).toEqual(asked.map(() => false));
  });

  test("a slot whose session has moved on stays empty, and its call goes to the next slot", async () => {
    const run = await makeRun(store.db);
    const session = await makeSession(store.db);
    const tool = newName("tool");
    await openCall(store.db, run, 1, { tool });
    const slot = { session: session.number, worker: "worker-1" };
    const { claimed } = await claimQueued(store.db, {
      projectId: PROJECT,
      namespace: null,
      toolset: null,
      tools: [tool],
      servedLast: "",
      slots: [
        { ...slot, claimId: "old", epoch: session.epoch - 1 },
        { ...slot, claimId: "new", epoch: session.epoch },
      ],
    });
    expect(claimed.map(({ slot: place, record }) => [place, record.call.claim?.id])).toEqual([[1, "new"]]);
  });

  test("calls that back off, and those of a run that has ended, are not handed out", async () => {
    const run = await makeRun(store.db);
    const session = await makeSession(store.db);
    const tool = newName("tool");
    const held = await openCall(store.db, run, 1, { tool, session });
    const failure = {
      kind: "tool",
      message: "",
      dataJson: null,
      retryable: true,
      outcomeUnknown: false,
    } as const;
    const claimId = held.claim?.id ?? "";
    await apply(store.db, held, { type: "answer", claimId, answer: { type: "failure", failure } });
    expect(await claim(store.db, session, 5, { tools: [tool] })).toEqual([]);
    const filter = { namespace: null, runId: undefined, toolset: null };
    const filters = [
      { ...filter, tool: "none" },
      { ...filter, tool },
      { ...filter, tool, namespace: run.namespace },
      { ...filter, tool, runId: run.id },
    ];
    expect(await whichAreFilled(store.db, PROJECT, filters)).toEqual([false, false, false, false]);
    await openCall(store.db, run, 2, { tool });
    expect(await whichAreFilled(store.db, PROJECT, filters)).toEqual([false, true, true, true]);
    await endRun(store.db, PROJECT, run.id);
    expect(await claim(store.db, session, 5, { tools: [tool] })).toEqual([]);
  });

  test("calls of a run that is just being ended are passed over, without waiting for it", async () => {
    const run = await makeRun(store.db);
    const session = await makeSession(store.db);
    const tool = newName("tool");
    await openCall(store.db, run, 1, { tool });
    await store.other.transaction(async (tx) => {
      await endRun(tx, PROJECT, run.id);
      expect(await claim(store.db, session, 5, { tools: [tool] })).toEqual([]);
    });
  });

  test("a call that was claimed, and whose claim was released meanwhile, is claimed under the next attempt", async () => {
    const run = await makeRun(store.db);
    const session = await makeSession(store.db);
    const tool = newName("tool");
    const held = await openCall(store.db, run, 1, { tool, session });
    const released: Call = await apply(store.db, held, { type: "release", claimId: held.claim?.id ?? "" });
    const [row] = await claim(store.db, session, 1, { tools: [tool] });
    expect(row?.record.call).toMatchObject({ attempt: 2, spent: 1, version: released.version + 1 });
    expect(await reload(store.db, held)).toEqual(row?.record.call);
  });
});

describe("a queue of 100,000 calls of a tool that nobody serves", () => {
  interface Plan {
    readonly "Node Type": string;
    readonly "Index Name"?: string;
    readonly "Actual Rows": number;
    readonly "Actual Loops": number;
    readonly Plans?: readonly Plan[];
  }

  const flatten = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(flatten)];

  async function explain(db: Database, name: string, values: readonly unknown[]): Promise<Plan[]> {
    const text = allStatements().find((each) => each.name === name)?.text ?? "";
    const explained = { name: `explain_${name}`, text: `EXPLAIN (ANALYZE, FORMAT JSON) ${text}` };
    const [row] = await db.query<{ "QUERY PLAN": string }>(explained, values);
    const [{ Plan: plan }] = JSON.parse(row?.["QUERY PLAN"] ?? "[]") as [{ Plan: Plan }];
    return flatten(plan);
  }

  test("does not slow claims of other tools: they read a few rows of the index and sort nothing else", async () => {
    const run = await makeRun(store.db);
    const session = await makeSession(store.db);
    const tool = newName("tool");
    await store.database.pool().query(
      `INSERT INTO calls (project_id, run_id, seq, key, namespace, tool, executor, mode, max_attempts,
        heartbeat_timeout_ms, detach_grace_ms, priority, traceparent, input, version, state, attempt, spent)
      SELECT 1, $1, n, n::text, 'alice', 'unserved', 'worker', 'retry', 5, 60000, 10000, 0, '', '{}', 1, 'queued', 0, 0
      FROM generate_series(1, 100000) n`,
      [run.id],
    );
    await insertCalls(
      store.db,
      Array.from({ length: 50 }, (_, index) => newRow(run, 200_000 + index, { tool })),
    );
    const other = await makeRun(store.db);
    await insertCalls(store.db, [newRow(other, 1, { tool }), newRow(other, 2, { tool: "unserved" })]);
    const values = (...bound: string[]): unknown[] => [
      PROJECT,
      `{${tool},another}`,
      null,
      24,
      '{"claim-1","claim-2"}',
      `{${session.number},${session.number}}`,
      `{${session.epoch},${session.epoch}}`,
      '{"worker-1","worker-1"}',
      ...bound,
    ];
    const kinds = [
      { name: "calls_claim", index: "calls_claimable", bound: [""] },
      { name: "calls_claim_of_namespace", index: "calls_claimable_by_namespace", bound: ["alice"] },
      { name: "calls_claim_of_run", index: "calls_pkey", bound: [other.id, "alice"] },
    ];
    for (const { name, index, bound } of kinds) {
      const nodes = await explain(store.db, name, values(...bound));
      expect(nodes.map((node) => node["Index Name"])).toContain(index);
      expect(nodes.filter((node) => node["Node Type"] === "Seq Scan")).toEqual([]);
      expect(Math.max(...nodes.map((node) => node["Actual Rows"] * node["Actual Loops"]))).toBeLessThan(100);
    }
  });
});
