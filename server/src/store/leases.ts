import type { Call } from "../core/call.js";
import { numberArray } from "./array-parameter.js";
import type { Database } from "./database.js";
import { raiseFloor } from "./nodes.js";
import { CALL_COLUMNS, toCall, type CallRow } from "./rows.js";
import { statement } from "./statement.js";

/*
 * The floor, the look at it and the choice are one statement with one clock. In two, an outage between them
 * would let every lease lapse. A session is detached from its last word on, or, while attached to a node that
 * died, from when that node was last due.
 */
const LAPSED = statement(
  "leases_lapsed",
  `WITH raised AS (
    ${raiseFloor("$1::bigint")}
  ), floor AS (
    SELECT coalesce((SELECT floor_at FROM raised), (SELECT floor_at FROM lease_floor)) AS at
  ), holder AS (
    SELECT s.project_id, s.id, s.last_heard_at,
      CASE s.state WHEN 'attached' THEN n.died_at WHEN 'silent' THEN NULL ELSE s.detached_at END AS detached_at
    FROM sessions s
    LEFT JOIN LATERAL (
      SELECT n.renewed_at + 3 * greatest(n.interval_ms, $1::bigint) * interval '1 millisecond' AS died_at
      FROM nodes n WHERE n.id = s.node_id
    ) n ON true
  )
  SELECT ${CALL_COLUMNS}
  FROM floor f
  CROSS JOIN holder s
  JOIN calls c ON c.project_id = s.project_id AND c.session = s.id AND c.state = 'claimed'
  WHERE greatest(c.claimed_at, s.last_heard_at, f.at) + c.heartbeat_timeout_ms * interval '1 millisecond' <= now()
    OR (
      c.mode = 'retry' AND s.detached_at > f.at
      AND greatest(c.claimed_at, s.detached_at) + c.detach_grace_ms * interval '1 millisecond' <= now()
    )
  LIMIT $2`,
);

/**
 * Claimed calls whose lease has ended by the database's clock: their session was not heard of for the
 * heartbeat timeout, or, under `retry`, has been detached for longer than the grace. After a time in which
 * no node was alive all leases start anew.
 *
 * @param intervalMs The asking node's heartbeat interval.
 */
export async function lapsedClaims(db: Database, intervalMs: number, limit: number): Promise<Call[]> {
  return (await db.query<CallRow>(LAPSED, [intervalMs, limit])).map(toCall);
}

const OF_SESSIONS = statement(
  "leases_of_sessions",
  `SELECT ${CALL_COLUMNS}
  FROM unnest($1::bigint[], $2::integer[]) AS i (id, epoch)
  CROSS JOIN LATERAL (SELECT * FROM sessions WHERE id = i.id AND epoch = i.epoch OFFSET 0) s
  CROSS JOIN LATERAL (
    SELECT * FROM calls WHERE project_id = s.project_id AND session = s.id AND state = 'claimed' OFFSET 0
  ) c
  WHERE c.claimed_at <= now() - $3::bigint * interval '1 millisecond'`,
);

/** Live claims of these sessions, of those whose epoch has not moved on, that were made longer ago than that. */
export async function sessionClaims(
  db: Database,
  sessions: readonly { readonly number: number; readonly epoch: number }[],
  olderThanMs: number,
): Promise<Call[]> {
  const values = [
    numberArray(sessions.map(({ number }) => number)),
    numberArray(sessions.map(({ epoch }) => epoch)),
    olderThanMs,
  ];
  return (await db.query<CallRow>(OF_SESSIONS, values)).map(toCall);
}
