import { isEnded } from "../core/call.js";
import type { Scope } from "../core/scope.js";
import type { Database } from "./database.js";
import { BARE_RECORD_COLUMNS, toRecord, type CallRecord, type RecordRow } from "./rows.js";
import { lookUpCall, LOOK_UP_RUN, statement } from "./statement.js";

/** How a turn stands, as of one instant. */
export interface TurnPage {
  /** How many calls the turn has; 0 where there is no such turn. */
  readonly total: number;
  /** Its open calls, in the order of their numbers. The turn is settled when there is none. */
  readonly open: readonly CallRecord[];
  /** Ended calls after the number that was asked from, in the order of their numbers. */
  readonly outcomes: readonly CallRecord[];
  /** Whether more outcomes follow those of this page. */
  readonly more: boolean;
}

/*
 * One statement, so that what is open and what has ended are of one instant. The page is cut where the sizes
 * of results, failures and names pass the limit, but has at least one outcome. Inputs are left out.
 */
const TURN = statement(
  "calls_turn",
  `WITH member AS MATERIALIZED (
    SELECT c.seq, c.state IN ('queued', 'claimed', 'deferred') AS open,
      CASE WHEN c.seq > $5 THEN octet_length(c.key) + octet_length(c.tool)
        + coalesce(octet_length(c.result::text), octet_length(c.failure::text), 0) END AS size
    FROM calls c
    WHERE c.project_id = $1 AND c.run_id = $2 AND c.turn = $3 AND ($4::text IS NULL OR c.namespace = $4)
  ), sized AS (
    SELECT m.seq, m.open, m.size,
      sum(m.size + 200) FILTER (WHERE NOT m.open) OVER (ORDER BY m.seq) AS bytes,
      count(*) FILTER (WHERE NOT m.open AND m.size IS NOT NULL) OVER (ORDER BY m.seq) AS place
    FROM member m
  ), chosen AS (
    SELECT $1::integer AS project_id, $2::uuid AS run_id, s.seq FROM sized s
    WHERE s.open OR (s.size IS NOT NULL AND (s.bytes <= $6 OR s.place = 1))
  ), counted AS (
    SELECT (SELECT count(*) FROM member) AS total,
      (SELECT count(*) FROM member m WHERE NOT m.open AND m.size IS NOT NULL) AS outcomes
  )
  SELECT t.total, t.outcomes, page.*
  FROM counted t
  LEFT JOIN LATERAL (
    SELECT ${BARE_RECORD_COLUMNS}, c.result AS outcome
    FROM chosen k
    ${lookUpCall("k")}
    ${LOOK_UP_RUN}
  ) page ON true
  ORDER BY page.seq`,
);

type TurnRow = { readonly total: number; readonly outcomes: number } & (
  (RecordRow & { readonly outcome: string | null }) | { readonly seq: null }
);

const NO_TURN: TurnPage = { total: 0, open: [], outcomes: [], more: false };

/**
 * Reads a turn: how many calls it has, which are open, and the outcomes after `afterSeq`, about `maxBytes`
 * of them. Inputs are left out.
 */
export async function readTurn(
  db: Database,
  scope: Scope,
  runId: string,
  turn: number,
  afterSeq: number,
  maxBytes: number,
): Promise<TurnPage> {
  if (scope.runId !== undefined && runId !== scope.runId) return NO_TURN;
  const values = [scope.projectId, runId, turn, scope.namespace, afterSeq, maxBytes];
  const rows = await db.query<TurnRow>(TURN, values);
  const records = rows.flatMap((row) => (row.seq === null ? [] : toRecord({ ...row, result: row.outcome })));
  const outcomes = records.filter(({ call }) => isEnded(call));
  return {
    total: rows[0]?.total ?? 0,
    open: records.filter(({ call }) => !isEnded(call)),
    outcomes,
    more: (rows[0]?.outcomes ?? 0) > outcomes.length,
  };
}
