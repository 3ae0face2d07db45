import type { Call } from "../core/call.js";
import type { Timers } from "../core/event.js";
import { DEFAULT_POLICY } from "../core/policy.js";
import { jsonArray, jsonParameters, numberArray, textArray } from "./array-parameter.js";
import { findRecords } from "./calls-read.js";
import type { Database } from "./database.js";
import { policyToJson, type CallRecord, type Instant } from "./rows.js";
import { nextSeq, statement } from "./statement.js";
import { timerMs } from "./timer.js";

/** A call to insert. */
export interface NewCallRow {
  /** From the state machine's `birth`: queued, claimed or deferred, version 1. */
  readonly call: Call;
  readonly timers: Timers;
  readonly inputJson: string;
  /** Higher ones are claimed first. */
  readonly priority: number;
  readonly traceparent: string;
  /** Its run's. */
  readonly toolset: string | null;
  /** The epoch of the claim's session: where it has moved on, the call is queued. Null without a claim. */
  readonly epoch: number | null;
}

/** What became of a {@link NewCallRow}. */
export type InsertOutcome =
  | {
      readonly type: "inserted";
      readonly openedAt: Instant;
      /** False for a claimed call whose session's epoch had moved: it is queued, with no claim, unspent. */
      readonly claimed: boolean;
    }
  /** Its run has a call under this key, or this very call, from a batch that was sent before. */
  | { readonly type: "exists"; readonly record: CallRecord }
  /** Another call has the number; `nextSeq` was free when it was read. */
  | { readonly type: "seq_taken"; readonly nextSeq: number }
  /** The run has ended, its TTL has passed, or there is no such run. */
  | { readonly type: "run_ended" };

interface InsertedRow {
  readonly project_id: number;
  readonly run_id: string;
  readonly seq: number;
  readonly claimed: boolean;
  readonly opened_at: Instant;
}

interface StatusRow {
  readonly n: number;
  readonly active: boolean;
  readonly next_seq: number;
}

/*
 * Runs and sessions are locked row by row in the batch's order, by subqueries that a lock keeps from being
 * flattened into joins: a run that is being ended is waited for, and read again. The policy's columns repeat
 * what its JSON holds; null stands for the default one. Where a run's first number in the batch is another call's,
 * none of the run's is inserted: they all get new numbers, and keep their order.
 */
const INSERT = statement(
  "calls_insert",
  `INSERT INTO calls AS c
    (project_id, run_id, seq, key, turn, namespace, tool, toolset, executor, policy, mode, max_attempts,
    heartbeat_timeout_ms, detach_grace_ms, priority, traceparent, input, version, state, attempt, spent,
    claim_id, claim_standing, session, worker, claimed_at,
    attempt_timeout_at, total_timeout_at, defer_timeout_at, due_at)
  SELECT i.project_id, i.run_id, i.seq, i.key, i.turn, i.namespace, i.tool, i.toolset,
    CASE WHEN i.state = 'deferred' THEN 'client' ELSE 'worker' END::executor,
    i.policy,
    coalesce(i.policy ->> 'mode', '${DEFAULT_POLICY.mode}')::policy_mode,
    coalesce((i.policy ->> 'maxAttempts')::integer, ${DEFAULT_POLICY.maxAttempts}),
    coalesce((i.policy ->> 'heartbeatTimeoutMs')::bigint, ${DEFAULT_POLICY.heartbeatTimeoutMs}),
    coalesce((i.policy ->> 'detachGraceMs')::bigint, ${DEFAULT_POLICY.detachGraceMs}),
    i.priority, i.traceparent, coalesce($23::json, i.input), 1,
    CASE WHEN i.session IS NOT NULL AND s.id IS NULL THEN 'queued' ELSE i.state END,
    CASE WHEN i.session IS NOT NULL AND s.id IS NULL THEN 0 ELSE i.attempt END,
    CASE WHEN i.session IS NOT NULL AND s.id IS NULL THEN 0 ELSE i.spent END,
    CASE WHEN s.id IS NOT NULL THEN i.claim_id END,
    CASE WHEN s.id IS NOT NULL THEN 'live'::claim_standing END,
    s.id,
    CASE WHEN s.id IS NOT NULL THEN i.worker END,
    CASE WHEN s.id IS NOT NULL THEN now() END,
    t.attempt_at, t.total_at, t.defer_at,
    least(t.attempt_at, t.total_at, t.defer_at)
  FROM unnest($1::integer[], $2::uuid[], $3::integer[], $4::text[], $5::integer[], $6::text[], $7::text[],
      $8::text[], $9::json[], $10::integer[], $11::text[], $12::json[], $13::call_state[], $14::integer[],
      $15::integer[], $16::text[], $17::bigint[], $18::integer[], $19::text[],
      $20::bigint[], $21::bigint[], $22::bigint[], $24::integer[])
    AS i (project_id, run_id, seq, key, turn, namespace, tool,
      toolset, policy, priority, traceparent, input, state, attempt,
      spent, claim_id, session, epoch, worker,
      attempt_ms, total_ms, defer_ms, first_seq)
  CROSS JOIN LATERAL (
    SELECT FROM runs r
    WHERE r.project_id = i.project_id AND r.id = i.run_id AND r.state = 'active'
      AND (r.expires_at IS NULL OR r.expires_at > now())
    FOR KEY SHARE
  ) r
  LEFT JOIN LATERAL (
    SELECT s.id FROM sessions s
    WHERE s.project_id = i.project_id AND s.id = i.session AND s.epoch = i.epoch
    FOR KEY SHARE
  ) s ON true
  CROSS JOIN LATERAL (
    SELECT
      CASE WHEN i.session IS NULL OR s.id IS NOT NULL THEN timer_at(NULL, i.attempt_ms) END AS attempt_at,
      timer_at(NULL, i.total_ms) AS total_at,
      timer_at(NULL, i.defer_ms) AS defer_at
  ) t
  LEFT JOIN LATERAL (
    SELECT true AS taken FROM calls f
    WHERE f.project_id = i.project_id AND f.run_id = i.run_id AND f.seq = i.first_seq
    LIMIT 1
  ) f ON true
  WHERE f.taken IS NULL
  ON CONFLICT DO NOTHING
  RETURNING c.project_id, c.run_id, c.seq, c.state = 'claimed' AS claimed, micros(c.opened_at) AS opened_at`,
);

/** A statement of its own: in the one that inserts, what another transaction has just inserted is invisible. */
const STATUS = statement(
  "calls_insert_status",
  `SELECT i.n::integer AS n,
    (r.state = 'active' AND (r.expires_at IS NULL OR r.expires_at > now())) AS active,
    ${nextSeq("i.project_id", "i.run_id")} AS next_seq
  FROM unnest($1::integer[], $2::uuid[]) WITH ORDINALITY AS i (project_id, run_id, n)
  CROSS JOIN LATERAL (SELECT * FROM runs WHERE project_id = i.project_id AND id = i.run_id OFFSET 0) r`,
);

/**
 * Inserts calls into active runs; outcomes in the rows' order. One statement on the straight path. A row
 * that is at fault fails the whole batch, with an error of the class `item`. `numberedElsewhere`: other nodes may
 * number calls of the same runs.
 */
export async function insertCalls(
  db: Database,
  rows: readonly NewCallRow[],
  numberedElsewhere = true,
): Promise<InsertOutcome[]> {
  // Of two rows for one number the first is inserted.
  const numbered = new Map<string, NewCallRow>();
  // By run, and within it as they came: locks are taken in one order everywhere, and the queue keeps theirs.
  for (const row of [...rows].sort(byRun)) {
    const key = refKey(row.call.projectId, row.call.runId, row.call.seq);
    if (!numbered.has(key)) numbered.set(key, row);
  }
  const outcomes = new Map<NewCallRow, InsertOutcome>();
  const inserted = await db.query<InsertedRow>(
    INSERT,
    insertValues([...numbered.values()], numberedElsewhere),
  );
  for (const { project_id: projectId, run_id: runId, seq, claimed, opened_at: openedAt } of inserted) {
    const row = numbered.get(refKey(projectId, runId, seq));
    if (row !== undefined) outcomes.set(row, { type: "inserted", openedAt, claimed });
  }
  const missing = rows.filter((row) => !outcomes.has(row));
  if (missing.length > 0) await explainMissing(db, missing, outcomes);
  return rows.map((row) => outcomes.get(row) ?? { type: "run_ended" });
}

/** What stood in the way of rows that were not inserted. */
async function explainMissing(
  db: Database,
  rows: readonly NewCallRow[],
  outcomes: Map<NewCallRow, InsertOutcome>,
): Promise<void> {
  const records = await findRecords(
    db,
    rows.map(({ call }) => call),
  );
  const unknown: NewCallRow[] = [];
  rows.forEach((row, index) => {
    const record = records[index];
    if (record === null || record === undefined) unknown.push(row);
    else outcomes.set(row, { type: "exists", record });
  });
  if (unknown.length === 0) return;
  const statuses = await db.query<StatusRow>(STATUS, [
    numberArray(unknown.map(({ call }) => call.projectId)),
    textArray(unknown.map(({ call }) => call.runId)),
  ]);
  for (const { n, active, next_seq: free } of statuses) {
    const row = unknown[n - 1];
    if (row !== undefined && active) outcomes.set(row, { type: "seq_taken", nextSeq: free });
  }
}

function insertValues(rows: readonly NewCallRow[], numberedElsewhere: boolean): unknown[] {
  const [inputs, onlyInput] = jsonParameters(rows.map(({ inputJson }) => inputJson));
  return [
    numberArray(rows.map(({ call }) => call.projectId)),
    textArray(rows.map(({ call }) => call.runId)),
    numberArray(rows.map(({ call }) => call.seq)),
    textArray(rows.map(({ call }) => call.key)),
    numberArray(rows.map(({ call }) => call.turn)),
    textArray(rows.map(({ call }) => call.namespace)),
    textArray(rows.map(({ call }) => call.tool)),
    textArray(rows.map(({ toolset }) => toolset)),
    jsonArray(rows.map(({ call }) => policyToJson(call.policy))),
    numberArray(rows.map(({ priority }) => priority)),
    textArray(rows.map(({ traceparent }) => traceparent)),
    inputs,
    textArray(rows.map(({ call }) => call.state)),
    numberArray(rows.map(({ call }) => call.attempt)),
    numberArray(rows.map(({ call }) => call.spent)),
    textArray(rows.map(({ call }) => call.claim?.id ?? null)),
    numberArray(rows.map(({ call }) => call.claim?.session ?? null)),
    numberArray(rows.map(({ epoch }) => epoch)),
    textArray(rows.map(({ call }) => call.claim?.worker ?? null)),
    numberArray(rows.map(({ timers }) => timerMs(timers.attempt))),
    numberArray(rows.map(({ timers }) => timerMs(timers.total))),
    numberArray(rows.map(({ timers }) => timerMs(timers.defer))),
    onlyInput,
    numberArray(numberedElsewhere ? firstSeqs(rows) : rows.map(() => null)),
  ];
}

/** For each row the number of its run's first one, unless it is that; rows of a run lie side by side. */
function firstSeqs(rows: readonly NewCallRow[]): (number | null)[] {
  let first: Call | null = null;
  return rows.map(({ call }) => {
    if (first?.runId === call.runId) return first.seq;
    first = call;
    return null;
  });
}

function refKey(projectId: number, runId: string, seq: number): string {
  return `${projectId}/${runId}/${seq}`;
}

function byRun(a: NewCallRow, b: NewCallRow): number {
  if (a.call.projectId !== b.call.projectId) return a.call.projectId - b.call.projectId;
  if (a.call.runId === b.call.runId) return 0;
  return a.call.runId < b.call.runId ? -1 : 1;
}
