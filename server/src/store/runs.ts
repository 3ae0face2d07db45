import type { Scope } from "../core/scope.js";
import { numberArray, textArray } from "./array-parameter.js";
import type { Database } from "./database.js";
import type { Instant, Labels } from "./rows.js";
import { nextSeq, sameRun, statement } from "./statement.js";

/** A run as it is stored. */
export interface RunRecord {
  readonly projectId: number;
  /** A UUID of version 7, so that ids order by age. */
  readonly id: string;
  readonly key: string | null;
  readonly namespace: string;
  readonly toolset: string | null;
  /** Pinned when the run was made. */
  readonly toolsetVersion: number | null;
  readonly labels: Labels;
  readonly state: "active" | "ended";
  readonly ttlMs: number | null;
  readonly createdAt: Instant;
  readonly expiresAt: Instant | null;
  readonly endedAt: Instant | null;
  /** One above the highest number of its calls, when it was read. */
  readonly nextSeq: number;
}

/** A run to make. */
export interface NewRun {
  readonly projectId: number;
  readonly id: string;
  readonly key: string | null;
  readonly namespace: string;
  readonly toolset: string | null;
  readonly labels: Labels;
  readonly ttlMs: number | null;
}

/** Names a run in the whole database. */
export interface RunRef {
  readonly projectId: number;
  readonly id: string;
}

/** What became of a {@link NewRun}; `exists`: its key, or its id, is there already, whatever its content. */
export type CreateOutcome =
  { readonly type: "created" | "exists"; readonly run: RunRecord } | { readonly type: "no_toolset" };

/** Which runs to list. */
export interface RunFilter {
  readonly namespace: string | null;
  readonly state: "active" | "ended" | null;
  /** All of these; none: any. */
  readonly labels: Labels;
  readonly limit: number;
  /** The last run of the page before. */
  readonly after: string | null;
}

interface RunRow {
  readonly project_id: number;
  readonly id: string;
  readonly key: string | null;
  readonly namespace: string;
  readonly toolset: string | null;
  readonly toolset_version: number | null;
  readonly labels: Labels;
  readonly state: "active" | "ended";
  readonly ttl_ms: number | null;
  readonly created_at: Instant;
  readonly expires_at: Instant | null;
  readonly ended_at: Instant | null;
  readonly next_seq: number;
}

const STORED_COLUMNS = `r.project_id, r.id, r.key, r.namespace, r.toolset, r.toolset_version, r.labels, r.state,
  r.ttl_ms, micros(r.created_at) AS created_at, micros(r.expires_at) AS expires_at,
  micros(r.ended_at) AS ended_at`;

const COLUMNS = `${STORED_COLUMNS}, ${nextSeq("r.project_id", "r.id")} AS next_seq`;

function toRun(row: RunRow): RunRecord {
  return {
    projectId: row.project_id,
    id: row.id,
    key: row.key,
    namespace: row.namespace,
    toolset: row.toolset,
    toolsetVersion: row.toolset_version,
    labels: row.labels,
    state: row.state,
    ttlMs: row.ttl_ms,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    endedAt: row.ended_at,
    nextSeq: row.next_seq,
  };
}

const CREATE = statement(
  "runs_create",
  `INSERT INTO runs AS r
    (project_id, id, key, namespace, toolset, toolset_version, labels, ttl_ms, expires_at, due_at)
  SELECT i.project_id, i.id, i.key, i.namespace, i.toolset, t.version, i.labels, i.ttl_ms,
    now() + i.ttl_ms * interval '1 millisecond', now() + i.ttl_ms * interval '1 millisecond'
  FROM unnest($1::integer[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::jsonb[], $7::bigint[])
    WITH ORDINALITY AS i (project_id, id, key, namespace, toolset, labels, ttl_ms, n)
  LEFT JOIN LATERAL (
    SELECT version FROM toolsets WHERE project_id = i.project_id AND id = i.toolset AND deleted_at IS NULL OFFSET 0
  ) t ON true
  WHERE i.toolset IS NULL OR t.version IS NOT NULL
  ORDER BY i.n
  ON CONFLICT DO NOTHING
  RETURNING ${STORED_COLUMNS}, 1 AS next_seq`,
);

const FIND = statement(
  "runs_find",
  `SELECT i.n::integer AS n, ${COLUMNS}
  FROM unnest($1::integer[], $2::uuid[], $3::text[], $4::text[])
    WITH ORDINALITY AS i (project_id, id, key, namespace, n)
  CROSS JOIN LATERAL (
    SELECT * FROM runs WHERE project_id = i.project_id AND namespace = i.namespace AND key = i.key
    UNION ALL
    SELECT * FROM runs WHERE project_id = i.project_id AND id = i.id
    LIMIT 1
  ) r`,
);

/**
 * Makes runs, each with the current version of its toolset. A run whose key is taken, or that is there
 * already because its batch was sent again, is read instead; the caller compares.
 */
export async function createRuns(db: Database, runs: readonly NewRun[]): Promise<CreateOutcome[]> {
  // In one order everywhere, so that two batches with the same keys wait for each other in one direction.
  const sorted = [...runs].sort((a, b) => compare(a.key ?? a.id, b.key ?? b.id));
  const rows = await db.query<RunRow>(CREATE, [
    numberArray(sorted.map(({ projectId }) => projectId)),
    textArray(sorted.map(({ id }) => id)),
    textArray(sorted.map(({ key }) => key)),
    textArray(sorted.map(({ namespace }) => namespace)),
    textArray(sorted.map(({ toolset }) => toolset)),
    textArray(sorted.map(({ labels }) => JSON.stringify(labels))),
    numberArray(sorted.map(({ ttlMs }) => ttlMs)),
  ]);
  const created = new Map(rows.map((row) => [row.id, row]));
  const missing = runs.filter(({ id }) => !created.has(id));
  const found = missing.length === 0 ? new Map<string, RunRow>() : await findRuns(db, missing);
  return runs.map(({ id }): CreateOutcome => {
    const made = created.get(id);
    if (made !== undefined) return { type: "created", run: toRun(made) };
    const there = found.get(id);
    return there === undefined ? { type: "no_toolset" } : { type: "exists", run: toRun(there) };
  });
}

/** The stored runs by the ids of those that were to be made. */
async function findRuns(db: Database, runs: readonly NewRun[]): Promise<Map<string, RunRow>> {
  const rows = await db.query<RunRow & { readonly n: number }>(FIND, [
    numberArray(runs.map(({ projectId }) => projectId)),
    textArray(runs.map(({ id }) => id)),
    textArray(runs.map(({ key }) => key)),
    textArray(runs.map(({ namespace }) => namespace)),
  ]);
  return new Map(rows.map((row) => [runs[row.n - 1]?.id ?? row.id, row]));
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

const LOAD = statement(
  "runs_load",
  `SELECT i.n::integer AS n, ${COLUMNS}
  FROM unnest($1::integer[], $2::uuid[]) WITH ORDINALITY AS i (project_id, id, n)
  CROSS JOIN LATERAL (SELECT * FROM runs WHERE project_id = i.project_id AND id = i.id OFFSET 0) r`,
);

/** Reads runs; null where there is none. */
export async function loadRuns(db: Database, refs: readonly RunRef[]): Promise<(RunRecord | null)[]> {
  const rows = await db.query<RunRow & { readonly n: number }>(LOAD, [
    numberArray(refs.map(({ projectId }) => projectId)),
    textArray(refs.map(({ id }) => id)),
  ]);
  const runs = new Array<RunRecord | null>(refs.length).fill(null);
  for (const row of rows) runs[row.n - 1] = toRun(row);
  return runs;
}

const LIST_FILTER = `($6::uuid IS NULL OR r.id = $6) AND ($3::run_state IS NULL OR r.state = $3) AND ($4::jsonb IS NULL OR r.labels @> $4)
  ORDER BY r.id DESC LIMIT $5`;

const LIST = statement(
  "runs_list",
  `SELECT ${COLUMNS} FROM runs r
  WHERE r.project_id = $1 AND r.id < coalesce($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
    AND ${LIST_FILTER}`,
);

const LIST_OF_NAMESPACE = statement(
  "runs_list_of_namespace",
  `SELECT ${COLUMNS} FROM runs r
  WHERE r.project_id = $1 AND r.namespace = $7
    AND r.id < coalesce($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
    AND ${LIST_FILTER}`,
);

/** Lists runs, the newest first, in pages: `next` is what `after` is for the page that follows. */
export async function listRuns(
  db: Database,
  scope: Scope,
  filter: RunFilter,
): Promise<{ readonly runs: RunRecord[]; readonly next: string | null }> {
  const namespace = filter.namespace ?? scope.namespace;
  if (scope.namespace !== null && namespace !== scope.namespace) return { runs: [], next: null };
  const labels = Object.keys(filter.labels).length === 0 ? null : JSON.stringify(filter.labels);
  const values = [scope.projectId, filter.after, filter.state, labels, filter.limit + 1, scope.runId ?? null];
  const rows =
    namespace === null
      ? await db.query<RunRow>(LIST, values)
      : await db.query<RunRow>(LIST_OF_NAMESPACE, [...values, namespace]);
  const runs = rows.slice(0, filter.limit).map(toRun);
  return { runs, next: rows.length > filter.limit ? (runs.at(-1)?.id ?? null) : null };
}

const END = statement(
  "runs_end",
  `WITH locked AS (
    SELECT FROM runs WHERE project_id = $1 AND id = $2 FOR UPDATE
  )
  UPDATE runs r SET
    state = 'ended',
    ended_at = coalesce(r.ended_at, now()),
    due_at = CASE WHEN r.state = 'active' THEN now() ELSE r.due_at END
  FROM locked WHERE r.project_id = $1 AND r.id = $2
  RETURNING ${COLUMNS}`,
);

/**
 * Ends a run: from its commit on, no call of it is opened, claimed or queued again. It waits for the opens
 * that came first, and stays due until {@link finishRun}, so that any node can cancel its open calls. Ending
 * it again changes nothing. Null where there is no such run.
 */
export async function endRun(db: Database, projectId: number, id: string): Promise<RunRecord | null> {
  // The lock comes first: a plain UPDATE would not wait for the inserts, which hold the row FOR KEY SHARE.
  const [row] = await db.query<RunRow>(END, [projectId, id]);
  return row === undefined ? null : toRun(row);
}

/** A run with open calls to cancel, and why. */
export interface DueRun {
  readonly run: RunRecord;
  readonly cause: "run_ended" | "run_expired";
}

const DUE = statement(
  "runs_due",
  `WITH due AS (
    SELECT project_id, id FROM runs WHERE due_at <= now()
    ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
  )
  UPDATE runs r SET
    state = 'ended',
    ended_at = coalesce(r.ended_at, now()),
    due_at = now() + interval '5 seconds'
  FROM due d WHERE ${sameRun("r", "d")}
  RETURNING ${COLUMNS}, r.ended_at >= coalesce(r.expires_at, 'infinity') AS expired`,
);

/**
 * Runs that have work to do: their TTL has passed, in which case they are ended here, or they were ended and
 * may still have open calls. Each is this node's for 5 s; {@link finishRun} takes it off the list.
 */
export async function dueRuns(db: Database, limit: number): Promise<DueRun[]> {
  const rows = await db.query<RunRow & { readonly expired: boolean }>(DUE, [limit]);
  return rows.map((row) => ({ run: toRun(row), cause: row.expired ? "run_expired" : "run_ended" }));
}

const FINISH = statement(
  "runs_finish",
  `UPDATE runs r SET due_at = NULL
  WHERE r.project_id = $1 AND r.id = $2 AND r.state = 'ended' AND NOT EXISTS (
    SELECT FROM calls c
    WHERE c.project_id = r.project_id AND c.run_id = r.id AND c.state IN ('queued', 'claimed', 'deferred')
  )
  RETURNING r.id`,
);

/** Takes an ended run off the due ones once it has no open call; false while it has one. */
export async function finishRun(db: Database, projectId: number, id: string): Promise<boolean> {
  return (await db.query(FINISH, [projectId, id])).length > 0;
}
