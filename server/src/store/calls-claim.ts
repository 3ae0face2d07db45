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
  /** Only calls of this run; not set: of any. */
  readonly runId?: string | undefined;
  /** Only calls of runs with this toolset; null: any. */
  readonly toolset: string | null;
  readonly tools: readonly string[];
  /** The end user whose call was claimed last: the next one is served first. Empty: nobody's was. */
  readonly servedLast: string;
  readonly slots: readonly ClaimSlot[];
}

/** A claim that was made. */
export interface ClaimedRow {
  readonly record: CallRecord;
  /** The place of its slot in the group's. */
  readonly slot: number;
}

/** What a claim came to. */
export interface ClaimOutcome {
  /** In the order of claiming, which is that of the slots. */
  readonly claimed: readonly ClaimedRow[];
  /** Whether there may be calls that were not looked at. False: none is left that could be claimed just now. */
  readonly more: boolean;
}

/** Candidates above the slots, since other nodes may be claiming the first ones, and runs may have ended. */
const SPARE = 20;

/*
 * Candidates are read without a lock. No more sessions are locked than there are candidates: a claim that finds
 * nothing, as happens often where several nodes hear of a call, writes nothing. The candidates are then looked up
 * one after the other, best first, and locked, those that another node is claiming passed over, until every slot
 * has one. What is looked at again under the lock is written such that no partial index fits it: the planner would
 * take one of those for the look-up, and walk through the queue. The claim is the state machine's: `decide` with
 * the event `claim`.
 */
const SLOTS = `slot AS (
    SELECT i.n, i.claim_id, i.session, i.worker
    FROM unnest($5::text[], $6::bigint[], $7::integer[], $8::text[])
      WITH ORDINALITY AS i (claim_id, session, epoch, worker, n)
    CROSS JOIN LATERAL (
      SELECT FROM sessions s
      WHERE s.project_id = $1 AND s.id = i.session AND s.epoch = i.epoch
      FOR KEY SHARE
    ) s
    LIMIT (SELECT count(*) FROM candidate)
  ), slots AS (
    SELECT count(*) AS free, array_agg(n ORDER BY n) AS n, array_agg(claim_id ORDER BY n) AS claim_id,
      array_agg(session ORDER BY n) AS session, array_agg(worker ORDER BY n) AS worker
    FROM slot
  )`;

/** Which calls can be claimed at all. */
const CLAIMABLE = "c.state = 'queued' AND NOT c.backing_off AND ($3::text IS NULL OR c.toolset = $3)";

/** The first call of a tool, in the order of the index, among those that fit. */
const first = (columns: string, where: string): string => `SELECT ${columns} FROM calls c
        WHERE c.project_id = $1 AND c.tool = w.tool AND ${where} AND ${CLAIMABLE}
        ORDER BY c.priority DESC, c.namespace DESC, c.id LIMIT 1`;

/*
 * The walk goes round the namespaces: at each step to the next one that has calls queued for any of the tools.
 * There is a row for each tool, which stands at the first call of a namespace. Those that stand at the step's
 * namespace, rank 1, are moved on by one probe of the index; the others stay. From $9, the namespace that was
 * served last, it goes down to the end, then from the priority's top, which is kept from when it was entered, to
 * $9, and then to the next lower priority. Names are never empty, so the empty one is below all.
 *
 * The walk ends after one namespace more than there are slots, or when it has stood at as many first calls as there
 * are slots and twice as many as there are tools. Where a namespace has calls queued for many of the tools, fewer
 * are seen, so each gets several of its calls claimed: at most about one for each tool.
 *
 * The order is downwards because the index by namespace cannot be read so: it is no worse in the planner's eyes,
 * but would be entered by the namespace, which is only a bound here, and not by the tool.
 */
const WALK = `walk AS (
    SELECT t.tool, 0 AS step, NULL::integer AS priority, '' COLLATE "C" AS namespace, 0::bigint AS id,
      '' COLLATE "C" AS top, 0::bigint AS top_id, true AS wrapped, 1::bigint AS rank, 0::bigint AS stops
    FROM unnest($2::text[]) AS t (tool)
    UNION ALL
    SELECT w.tool, w.step + 1, n.priority, n.namespace, n.id, n.top, n.top_id, n.wrapped,
      rank() OVER (ORDER BY n.priority DESC, n.wrapped, n.namespace DESC),
      w.stops + count(*) FILTER (WHERE w.rank = 1 AND w.step > 0) OVER ()
    FROM walk w
    CROSS JOIN LATERAL (
      SELECT w.priority, w.namespace, w.id, w.top, w.top_id, w.wrapped WHERE w.rank > 1
      UNION ALL
      SELECT w.priority, n.namespace, n.id, w.top, w.top_id, w.wrapped FROM (
        ${first(
          "c.namespace, c.id",
          `w.step > 0 AND c.priority = w.priority AND c.namespace < w.namespace
          AND c.namespace >= CASE WHEN w.wrapped THEN $9 ELSE '' END`,
        )}
      ) n
      UNION ALL
      SELECT w.priority, w.top, w.top_id, w.top, w.top_id, true WHERE NOT w.wrapped AND w.top >= $9
      UNION ALL
      SELECT p.priority, n.namespace, n.id, p.namespace, p.id, n.wrapped FROM (
        ${first("c.priority, c.namespace, c.id", "c.priority < CASE w.step WHEN 0 THEN 2147483647 ELSE w.priority END")}
      ) p
      CROSS JOIN LATERAL (
        SELECT n.namespace, n.id, false AS wrapped FROM (
          ${first("c.namespace, c.id", "c.priority = p.priority AND c.namespace < $9 AND p.namespace >= $9")}
        ) n
        UNION ALL
        SELECT p.namespace, p.id, p.namespace >= $9
        LIMIT 1
      ) n
      LIMIT 1
    ) n
    WHERE w.step <= cardinality($5::text[])
      AND w.stops < cardinality($5::text[]) + 2 * cardinality($2::text[])
  )`;

/*
 * Of each namespace that the walk came by, the longest queued calls over all tools are read, as many as it may get:
 * `most`. A namespace at which so many were read may have more of the same priority, so that nothing lower is taken
 * in this round. Of tools, only those are read whose first call can be among the longest queued ones.
 */
const CANDIDATES_IN_TURN = `place AS MATERIALIZED (
    SELECT w.step, w.priority, w.namespace, array_agg(w.tool ORDER BY w.id) AS tools,
      array_agg(w.id ORDER BY w.id) AS ids,
      CASE count(*) OVER same WHEN 1 THEN $4::integer
        ELSE greatest(2, ceil(2.0 * cardinality($5::text[]) / count(*) OVER same))::integer
      END AS most
    FROM walk w
    WHERE w.rank = 1 AND w.step > 0
    GROUP BY w.step, w.priority, w.namespace
    WINDOW same AS (PARTITION BY w.priority)
    ORDER BY w.step
  ), found AS MATERIALIZED (
    SELECT p.step, p.priority, p.most, k.run_id, k.seq, k.nth
    FROM place p
    CROSS JOIN LATERAL (
      SELECT c.run_id, c.seq, row_number() OVER (ORDER BY c.id) AS nth
      FROM (
        SELECT * FROM unnest(p.tools, p.ids) WITH ORDINALITY AS t (tool, id, nth) LIMIT p.most
      ) t
      CROSS JOIN LATERAL (
        SELECT c.run_id, c.seq, c.id FROM calls c
        WHERE c.project_id = $1 AND c.tool = t.tool AND c.priority = p.priority AND c.namespace = p.namespace
          AND c.id >= t.id AND ${CLAIMABLE}
        ORDER BY c.priority DESC, c.namespace DESC, c.id LIMIT p.most + 1 - t.nth
      ) c
      ORDER BY c.id LIMIT p.most
    ) k
    LIMIT $4::integer + cardinality($5::text[])
  ), candidate AS MATERIALIZED (
    SELECT f.run_id, f.seq, row_number() OVER (ORDER BY f.priority DESC, f.nth, f.step) AS place
    FROM found f
    WHERE f.priority >= coalesce((SELECT max(f.priority) FROM found f WHERE f.nth = f.most), -2147483648)
    ORDER BY place LIMIT $4::integer
  )`;

/** One probe of the index for each tool. */
const CANDIDATES_OF_NAMESPACE = `candidate AS MATERIALIZED (
    SELECT k.run_id, k.seq, row_number() OVER (ORDER BY k.priority DESC, k.id) AS place
    FROM unnest($2::text[]) AS t (tool)
    CROSS JOIN LATERAL (
      SELECT c.run_id, c.seq, c.priority, c.id FROM calls c
      WHERE c.project_id = $1 AND c.namespace = $9 AND c.tool = t.tool AND ${CLAIMABLE}
      ORDER BY c.priority DESC, c.id LIMIT $4::integer
    ) k
    ORDER BY place LIMIT $4::integer
  )`;

/*
 * All calls of the run are read by its key, those too that have ended: a run is one conversation. What is asked of
 * them is written such that the indexes of the whole queue do not fit it.
 */
const CANDIDATES_OF_RUN = `candidate AS MATERIALIZED (
    SELECT c.run_id, c.seq, row_number() OVER (ORDER BY c.priority DESC, c.id) AS place
    FROM calls c
    WHERE c.project_id = $1 AND c.run_id = $9 AND ($10::text IS NULL OR c.namespace = $10)
      AND c.tool = ANY ($2::text[]) AND ($3::text IS NULL OR c.toolset = $3)
      AND CASE WHEN c.backing_off THEN false ELSE c.state = 'queued' END
    ORDER BY place LIMIT $4::integer
  )`;

const LOCKED = `locked AS (
    SELECT c.project_id, c.run_id, c.seq, k.place, r.labels, r.expires_at
    FROM candidate k
    CROSS JOIN LATERAL (
      SELECT r.labels, r.expires_at FROM runs r
      WHERE r.project_id = $1 AND r.id = k.run_id AND r.state = 'active'
        AND (r.expires_at IS NULL OR r.expires_at > now())
      FOR KEY SHARE SKIP LOCKED
    ) r
    CROSS JOIN LATERAL (
      SELECT c.project_id, c.run_id, c.seq FROM calls c
      WHERE c.project_id = $1 AND c.run_id = k.run_id AND c.seq = k.seq
        AND CASE WHEN c.backing_off THEN false ELSE c.state = 'queued' END
      FOR UPDATE SKIP LOCKED
    ) c
    LIMIT (SELECT free FROM slots)
  ), best AS (
    SELECT l.project_id, l.run_id, l.seq, l.labels, l.expires_at, row_number() OVER (ORDER BY l.place) AS place
    FROM locked l
  )`;

const CLAIMED = `UPDATE calls c SET
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
  `WITH RECURSIVE ${WALK}, ${CANDIDATES_IN_TURN}, ${SLOTS}, ${LOCKED}, claimed AS (
    ${CLAIMED}
  )
  SELECT c.*,
    (SELECT count(*) FROM locked) >= (SELECT free FROM slots)
      AND (SELECT count(*) FROM candidate) > (SELECT free FROM slots)
    OR (SELECT count(*) FROM candidate) >= $4::integer
    OR EXISTS (SELECT FROM found f WHERE f.nth = f.most)
    OR EXISTS (
      SELECT FROM walk w
      WHERE w.step > cardinality($5::text[]) OR w.stops >= cardinality($5::text[]) + 2 * cardinality($2::text[])
    ) AS more
  FROM (SELECT) one LEFT JOIN claimed c ON true`,
);

const CLAIM_OF_NAMESPACE = statement(
  "calls_claim_of_namespace",
  `WITH ${CANDIDATES_OF_NAMESPACE}, ${SLOTS}, ${LOCKED}
  ${CLAIMED}`,
);

const CLAIM_OF_RUN = statement(
  "calls_claim_of_run",
  `WITH ${CANDIDATES_OF_RUN}, ${SLOTS}, ${LOCKED}
  ${CLAIMED}`,
);

/** A row of {@link CLAIM_OF_NAMESPACE} and {@link CLAIM_OF_RUN}. */
interface ClaimRow extends RecordRow {
  /** The number of its slot, from 1. */
  readonly n: number;
}

/** A row of {@link CLAIM}; where nothing was claimed it is one, of which only `more` is set. */
type ClaimInTurnRow = (ClaimRow | { readonly n: null }) & { readonly more: boolean };

/**
 * Claims queued calls for free slots, at most one for each: the highest priority first; within it one call of each
 * namespace after the other, round and round, from the one after that which was served last; within a namespace the
 * longest queued first. For a namespace or a run: the highest priority first, then the longest queued.
 */
export async function claimQueued(db: Database, group: ClaimGroup): Promise<ClaimOutcome> {
  const { projectId, namespace, runId, toolset, tools, servedLast, slots } = group;
  if (slots.length === 0 || tools.length === 0) return { claimed: [], more: slots.length === 0 };
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
  if (runId !== undefined || namespace !== null) {
    const rows =
      runId === undefined
        ? db.query<ClaimRow>(CLAIM_OF_NAMESPACE, [...values, namespace])
        : db.query<ClaimRow>(CLAIM_OF_RUN, [...values, runId, namespace]);
    const claimed = toClaimed(await rows);
    return { claimed, more: claimed.length === slots.length };
  }
  const rows = await db.query<ClaimInTurnRow>(CLAIM, [...values, servedLast]);
  return { claimed: toClaimed(rows), more: rows[0]?.more === true };
}

function toClaimed(rows: readonly (ClaimRow | { readonly n: null })[]): ClaimedRow[] {
  return rows
    .flatMap((row) => (row.n === null ? [] : [{ record: toRecord(row), slot: row.n - 1 }]))
    .sort((a, b) => a.slot - b.slot);
}

/** Which queued calls are asked for. */
export interface QueueFilter {
  readonly tool: string;
  /** Only calls of this end user; null: anybody's. */
  readonly namespace: string | null;
  /** Only calls of this run; not set: of any. */
  readonly runId: string | undefined;
  /** Only calls of runs with this toolset; null: any. */
  readonly toolset: string | null;
}

/** What a claim of the kind would look at first, with one of the three reads for each filter. */
const FILLED = statement(
  "calls_filled",
  `SELECT i.n::integer AS n
  FROM unnest($2::text[], $3::text[], $4::uuid[], $5::text[]) WITH ORDINALITY
    AS i (tool, namespace, run_id, toolset, n)
  CROSS JOIN LATERAL (
    (SELECT 1 FROM calls c
      WHERE i.namespace IS NULL AND i.run_id IS NULL
        AND c.project_id = $1 AND c.tool = i.tool
        AND c.state = 'queued' AND NOT c.backing_off AND (i.toolset IS NULL OR c.toolset = i.toolset)
      ORDER BY c.priority DESC, c.namespace DESC, c.id LIMIT 1)
    UNION ALL
    (SELECT 1 FROM calls c
      WHERE i.namespace IS NOT NULL AND i.run_id IS NULL
        AND c.project_id = $1 AND c.namespace = i.namespace AND c.tool = i.tool
        AND c.state = 'queued' AND NOT c.backing_off AND (i.toolset IS NULL OR c.toolset = i.toolset)
      ORDER BY c.priority DESC, c.id LIMIT 1)
    UNION ALL
    (SELECT 1 FROM calls c
      WHERE i.run_id IS NOT NULL
        AND c.project_id = $1 AND c.run_id = i.run_id AND (i.namespace IS NULL OR c.namespace = i.namespace)
        AND c.tool = i.tool AND (i.toolset IS NULL OR c.toolset = i.toolset)
        AND CASE WHEN c.backing_off THEN false ELSE c.state = 'queued' END
      LIMIT 1)
  ) c`,
);

/** Whether there is a call that could be claimed now, for each of these filters. */
export async function whichAreFilled(
  db: Database,
  projectId: number,
  filters: readonly QueueFilter[],
): Promise<boolean[]> {
  const rows = await db.query<{ readonly n: number }>(FILLED, [
    projectId,
    textArray(filters.map(({ tool }) => tool)),
    textArray(filters.map(({ namespace }) => namespace)),
    textArray(filters.map(({ runId }) => runId ?? null)),
    textArray(filters.map(({ toolset }) => toolset)),
  ]);
  const filled = new Set(rows.map(({ n }) => n));
  return filters.map((_, index) => filled.has(index + 1));
}
