import type { Call } from "../core/call.js";
import type { Database } from "./database.js";
import { CALL_COLUMNS, toCall, type CallRow } from "./rows.js";
import { sameCall, statement } from "./statement.js";

/** A call of which due times have passed, by the database's clock. */
export interface DueCall {
  readonly call: Call;
  readonly ready: boolean;
  readonly attempt: boolean;
  readonly defer: boolean;
  readonly total: boolean;
}

interface DueRow extends CallRow {
  readonly ready: boolean;
  readonly attempt_passed: boolean;
  readonly defer: boolean;
  readonly total: boolean;
}

const TAKE = statement(
  "due_take",
  `WITH due AS (
    SELECT project_id, run_id, seq FROM calls WHERE due_at <= now()
    ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
  )
  UPDATE calls c SET due_at = now() + interval '5 seconds'
  FROM due d WHERE ${sameCall("c", "d")}
  RETURNING ${CALL_COLUMNS},
    coalesce(c.ready_at <= now(), false) AS ready,
    coalesce(c.attempt_timeout_at <= now(), false) AS attempt_passed,
    coalesce(c.defer_timeout_at <= now(), false) AS defer,
    coalesce(c.total_timeout_at <= now(), false) AS total`,
);

/**
 * Calls that are due, the longest due first. Each is this node's for 5 s; what it then decides and saves sets
 * the next due time, and if it dies another node finds the call again.
 */
export async function takeDue(db: Database, limit: number): Promise<DueCall[]> {
  const rows = await db.query<DueRow>(TAKE, [limit]);
  return rows.map((row) => ({
    call: toCall(row),
    ready: row.ready,
    attempt: row.attempt_passed,
    defer: row.defer,
    total: row.total,
  }));
}

const NEXT = statement(
  "due_next",
  `SELECT
    ceil(extract(epoch FROM (SELECT min(due_at) FROM calls WHERE due_at IS NOT NULL) - now()) * 1000)::bigint
      AS calls_ms,
    ceil(extract(epoch FROM (SELECT min(due_at) FROM runs WHERE due_at IS NOT NULL) - now()) * 1000)::bigint
      AS runs_ms`,
);

/** Milliseconds until something is due, 0 when it is already; Infinity when nothing ever will be. */
export interface NextDue {
  readonly callsMs: number;
  readonly runsMs: number;
}

/** When the next call and the next run are due. */
export async function nextDue(db: Database): Promise<NextDue> {
  const [row] = await db.query<{ readonly calls_ms: number | null; readonly runs_ms: number | null }>(
    NEXT,
    [],
  );
  return {
    callsMs: Math.max(0, row?.calls_ms ?? Infinity),
    runsMs: Math.max(0, row?.runs_ms ?? Infinity),
  };
}
