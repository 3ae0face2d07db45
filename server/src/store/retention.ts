import { numberArray, textArray } from "./array-parameter.js";
import type { Database } from "./database.js";
import { sameCall, sameRun, sameSession, statement } from "./statement.js";

/** Calls that one statement deletes. */
const CHUNK = 2_000;

const OLD_RUNS = statement(
  "retention_old_runs",
  `SELECT project_id, id FROM runs
  WHERE state = 'ended' AND due_at IS NULL AND ended_at < now() - $1::bigint * interval '1 millisecond'
  ORDER BY ended_at LIMIT $2`,
);

const DELETE_CALLS = statement(
  "retention_delete_calls",
  `WITH old AS (
    SELECT c.project_id, c.run_id, c.seq
    FROM unnest($1::integer[], $2::uuid[]) AS i (project_id, run_id)
    CROSS JOIN LATERAL (
      SELECT * FROM calls WHERE project_id = i.project_id AND run_id = i.run_id LIMIT $3
    ) c
    LIMIT $3
  ), deleted AS (
    DELETE FROM calls c USING old o
    WHERE ${sameCall("c", "o")}
    RETURNING 1
  )
  SELECT count(*) AS deleted FROM deleted`,
);

const DELETE_RUNS = statement(
  "retention_delete_runs",
  `WITH empty AS MATERIALIZED (
    SELECT i.project_id, i.id FROM unnest($1::integer[], $2::uuid[]) AS i (project_id, id)
    WHERE NOT EXISTS (SELECT FROM calls c WHERE c.project_id = i.project_id AND c.run_id = i.id OFFSET 0)
  ), deleted AS (
    DELETE FROM runs r USING empty e WHERE ${sameRun("r", "e")} RETURNING 1
  )
  SELECT count(*) AS deleted FROM deleted`,
);

/**
 * Deletes runs that ended longer ago than that, with their calls, at most `limit` of them; each statement is
 * small and commits by itself. Call it again while it returns the limit.
 *
 * @returns how many runs were deleted
 */
export async function deleteEndedRuns(db: Database, olderThanMs: number, limit: number): Promise<number> {
  const runs = await db.query<{ project_id: number; id: string }>(OLD_RUNS, [olderThanMs, limit]);
  if (runs.length === 0) return 0;
  const values = [numberArray(runs.map((run) => run.project_id)), textArray(runs.map((run) => run.id))];
  for (;;) {
    const [calls] = await db.query<{ deleted: number }>(DELETE_CALLS, [...values, CHUNK]);
    if (calls === undefined || calls.deleted === 0) break;
  }
  const [deleted] = await db.query<{ deleted: number }>(DELETE_RUNS, values);
  return deleted?.deleted ?? 0;
}

const DELETE_SESSIONS = statement(
  "retention_delete_sessions",
  `WITH old AS (
    SELECT s.project_id, s.id FROM sessions s
    WHERE s.last_heard_at < now() - $1::bigint * interval '1 millisecond'
      AND NOT EXISTS (
        SELECT FROM calls c WHERE c.project_id = s.project_id AND c.session = s.id AND c.state = 'claimed'
      )
    LIMIT $2 FOR UPDATE SKIP LOCKED
  ), deleted AS (
    DELETE FROM sessions s USING old o WHERE s.project_id = o.project_id AND ${sameSession("s", "o")} RETURNING 1
  ), nodes_deleted AS (
    DELETE FROM nodes n WHERE n.renewed_at < now() - $1::bigint * interval '1 millisecond'
  ), tokens_deleted AS (
    DELETE FROM revoked_tokens WHERE expires_at <= now()
  ), signing_keys_deleted AS (
    DELETE FROM signing_keys WHERE retires_at <= now() - $1::bigint * interval '1 millisecond'
  )
  SELECT count(*) AS deleted FROM deleted`,
);

/**
 * Deletes sessions that were not heard of for longer than that and hold no claim, at most `limit` of them,
 * nodes that were not renewed for as long, and what is left of tokens that nobody can use any more.
 *
 * @returns how many sessions were deleted
 */
export async function deleteOldSessions(db: Database, olderThanMs: number, limit: number): Promise<number> {
  const [row] = await db.query<{ deleted: number }>(DELETE_SESSIONS, [olderThanMs, limit]);
  return row?.deleted ?? 0;
}
