import { numberArray, textArray } from "./array-parameter.js";
import type { Database } from "./database.js";
import { RECORD_COLUMNS, toRecord, type CallRecord, type RecordRow } from "./rows.js";
import { sameCall, statement } from "./statement.js";

/** Room of a session for one call. */
export interface ClaimSlot {
  /** The id of the claim to make. */
  readonly claimId: string;
  /** The session's number. */
  readonly session: number;
  /** Where the session's epoch has moved on, the slot stays empty. */
  readonly epoch: number;
  readonly worker: string;
}

/** Slots that ask for the same. */
export interface ClaimGroup {
  readonly projectId: number;
  /** Only calls of this end user; null: anybody's. */
  readonly namespace: string | null;
  /** Only calls of runs with this toolset; null: any. */
  readonly toolset: string | null;
  readonly tools: readonly string[];
  readonly slots: readonly ClaimSlot[];
}

/** A claim that was made. */
export interface ClaimedRow {
  readonly record: CallRecord;
  /** The place of its slot in the group's. */
  readonly slot: number;
}

/** Candidates above the slots, since other nodes may be claiming the first ones, and runs may have ended. */
const SPARE = 20;

/*
 * Candidates are read without a lock, one probe of the index for each tool. They are then looked up one after
 * the other, best first, and locked, those that another node is claiming passed over, until every slot has
 * one. What is looked at again under the lock is written such that no partial index fits it: the planner
 * would take one of those for the look-up, and walk through the queue. The claim is the state machine's:
 * `decide` with the event `claim`.
 */
const SLOTS = `WITH slot AS (
    SELECT i.n, i.claim_id, i.session, i.worker
    FROM unnest($5::text[], $6::bigint[], $7::integer[], $8::text[])
      WITH ORDINALITY AS i (claim_id, session, epoch, worker, n)
    CROSS JOIN LATERAL (
      SELECT FROM sessions s
      WHERE s.project_id = $1 AND s.id = i.session AND s.epoch = i.epoch
      FOR KEY SHARE
    ) s
  ), slots AS (
    SELECT count(*) AS free, array_agg(n ORDER BY n) AS n, array_agg(claim_id ORDER BY n) AS claim_id,
      array_agg(session ORDER BY n) AS session, array_agg(worker ORDER BY n) AS worker
    FROM slot
  )`;

const candidates = (where: string): string => `candidate AS MATERIALIZED (
    SELECT k.run_id, k.seq
    FROM unnest($2::text[]) AS t (tool)
    CROSS JOIN LATERAL (
      SELECT c.run_id, c.seq, c.priority, c.id FROM calls c
      WHERE ${where} AND c.state = 'queued' AND NOT c.backing_off
        AND ($3::text IS NULL OR c.toolset = $3)
      ORDER BY c.priority DESC, c.id LIMIT $4
    ) k
    ORDER BY k.priority DESC, k.id LIMIT $4
  )`;

const CLAIMED = `locked AS (
    SELECT c.project_id, c.run_id, c.seq, c.priority, c.id, r.labels, r.expires_at
    FROM candidate k
    CROSS JOIN LATERAL (
      SELECT r.labels, r.expires_at FROM runs r
      WHERE r.project_id = $1 AND r.id = k.run_id AND r.state = 'active'
        AND (r.expires_at IS NULL OR r.expires_at > now())
      FOR KEY SHARE SKIP LOCKED
    ) r
    CROSS JOIN LATERAL (
      SELECT c.project_id, c.run_id, c.seq, c.priority, c.id FROM calls c
      WHERE c.project_id = $1 AND c.run_id = k.run_id AND c.seq = k.seq
        AND CASE WHEN c.backing_off THEN false ELSE c.state = 'queued' END
      FOR UPDATE SKIP LOCKED
    ) c
    LIMIT (SELECT free FROM slots)
  ), best AS (
    SELECT l.*, row_number() OVER (ORDER BY l.priority DESC, l.id) AS place FROM locked l
  )
  UPDATE calls c SET
    version = c.version + 1,
    state = 'claimed',
    attempt = c.attempt + 1,
    spent = c.spent + CASE c.mode WHEN 'retry' THEN 1 ELSE 0 END,
    claim_id = s.claim_id[r.place],
    claim_standing = 'live',
    claim_accepted = false,
    session = s.session[r.place],
    worker = s.worker[r.place],
    claimed_at = now(),
    progress = NULL,
    ready_at = NULL,
    defer_timeout_at = NULL,
    attempt_timeout_at = timer_at(NULL, (c.policy ->> 'attemptTimeoutMs')::bigint),
    due_at = least(timer_at(NULL, (c.policy ->> 'attemptTimeoutMs')::bigint), c.total_timeout_at)
  FROM best r CROSS JOIN slots s
  WHERE ${sameCall("c", "r")}
  RETURNING s.n[r.place]::integer AS n, ${RECORD_COLUMNS}`;

const CLAIM = statement(
  "calls_claim",
  `${SLOTS}, ${candidates("c.project_id = $1 AND c.tool = t.tool")}, ${CLAIMED}`,
);

const CLAIM_OF_NAMESPACE = statement(
  "calls_claim_of_namespace",
  `${SLOTS}, ${candidates("c.project_id = $1 AND c.namespace = $9 AND c.tool = t.tool")}, ${CLAIMED}`,
);

/**
 * Claims queued calls for free slots, at most one for each: the highest priority first, then the longest
 * queued. Fewer than there are slots means that no more were to be had just now.
 */
export async function claimQueued(db: Database, group: ClaimGroup): Promise<ClaimedRow[]> {
  const { projectId, namespace, toolset, tools, slots } = group;
  if (slots.length === 0 || tools.length === 0) return [];
  const values = [
    projectId,
    textArray(tools),
    toolset,
    2 * slots.length + SPARE,
    textArray(slots.map(({ claimId }) => claimId)),
    numberArray(slots.map(({ session }) => session)),
    numberArray(slots.map(({ epoch }) => epoch)),
    textArray(slots.map(({ worker }) => worker)),
  ];
  const rows =
    namespace === null
      ? await db.query<RecordRow & { readonly n: number }>(CLAIM, values)
      : await db.query<RecordRow & { readonly n: number }>(CLAIM_OF_NAMESPACE, [...values, namespace]);
  return rows.map((row) => ({ record: toRecord(row), slot: row.n - 1 })).sort((a, b) => a.slot - b.slot);
}

const QUEUED = statement(
  "calls_queued_tools",
  `SELECT t.tool FROM unnest($2::text[]) AS t (tool)
  CROSS JOIN LATERAL (
    SELECT FROM calls c
    WHERE c.project_id = $1 AND c.tool = t.tool AND c.state = 'queued' AND NOT c.backing_off
    ORDER BY c.priority DESC, c.id LIMIT 1
  ) c`,
);

/** Which of these tools have a call that could be claimed now. */
export async function queuedTools(
  db: Database,
  projectId: number,
  tools: readonly string[],
): Promise<string[]> {
  const rows = await db.query<{ readonly tool: string }>(QUEUED, [projectId, textArray(tools)]);
  return rows.map(({ tool }) => tool);
}
