import type { CallRef } from "../core/call.js";
import { numberArray, textArray } from "./array-parameter.js";
import type { Database } from "./database.js";
import { RECORD_COLUMNS, toRecord, type CallRecord, type Instant, type RecordRow } from "./rows.js";
import type { RunRef } from "./runs.js";
import { lookUpCall, LOOK_UP_RUN, statement } from "./statement.js";

/** What was visible when something was read: what it does not name as committed counts as changed since. */
export interface ReadMark {
  /** A `pg_snapshot`, as PostgreSQL writes it. */
  readonly snapshot: string;
  readonly at: Instant;
  /** When that PostgreSQL was started: another one, as after a failover, may number its transactions anew. */
  readonly startedAt: Instant;
}

/** Which calls of a run to look for. */
export interface RunLook extends RunRef {
  /** Calls that changed since; null: all of them. */
  readonly since: ReadMark | null;
  /** Only calls above this number. */
  readonly after: number;
}

/** A call that was found to have changed. */
export interface ChangedCall {
  readonly seq: number;
  readonly version: number;
  /** It is open and has progress, which counts no version. */
  readonly hasProgress: boolean;
}

/** A run as it was seen. */
export interface SeenRun {
  readonly mark: ReadMark;
  readonly ended: boolean;
  /** It has ended, and so have all of its calls: nothing will ever change. */
  readonly finished: boolean;
  /** In the order of their numbers. */
  readonly calls: readonly ChangedCall[];
}

/** The highest number that a call can have; above it there is nothing. */
export const LAST_SEQ = 2 ** 31 - 1;

/** How much the clocks of two servers may differ, and how long the old one may have gone on. */
const OVERLAP_SECONDS = 60;

/*
 * A row's `xmin` is the transaction that wrote it, so what a snapshot did not see yet has changed since: no column has
 * to be written for that, and however late a transaction commits, it is found. `xmin` has 32 bits, of which `age`
 * makes a distance; from that and the snapshot's own 64 bits comes the whole number. Where the server is another one
 * than that of the mark, calls whose times come near it count as changed as well, which covers every end.
 */
const LOOK = statement(
  "run_watch_look",
  `WITH clock AS MATERIALIZED (
    SELECT pg_current_snapshot() AS snapshot, micros(now()) AS at, micros(pg_postmaster_start_time()) AS started_at,
      pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS top,
      age((pg_snapshot_xmax(pg_current_snapshot())::text::bigint % 4294967296)::text::xid)::bigint AS top_age
  )
  SELECT i.n::integer AS n, k.snapshot::text AS snapshot, k.at, k.started_at, r.state = 'ended' AS ended,
    r.state = 'ended' AND r.due_at IS NULL AS finished, c.seqs, c.versions, c.with_progress
  FROM unnest($1::integer[], $2::uuid[], $3::pg_snapshot[], $4::bigint[], $5::bigint[], $6::integer[])
    WITH ORDINALITY AS i (project_id, run_id, since, since_at, since_started_at, after, n)
  CROSS JOIN clock k
  CROSS JOIN LATERAL (
    SELECT state, due_at FROM runs WHERE project_id = i.project_id AND id = i.run_id OFFSET 0
  ) r
  CROSS JOIN LATERAL (
    SELECT pg_snapshot_xmin(i.since)::text::bigint AS oldest,
      i.since IS NULL OR pg_snapshot_xmax(i.since)::text::bigint > k.top AS all_of_it,
      CASE WHEN i.since_started_at <> k.started_at THEN
        timestamptz 'epoch' + i.since_at * interval '1 microsecond' - interval '${OVERLAP_SECONDS} seconds'
      END AS again_from
  ) f
  CROSS JOIN LATERAL (
    SELECT array_agg(p.seq) AS seqs, array_agg(p.version) AS versions, array_agg(p.with_progress) AS with_progress
    FROM (
      SELECT c.seq, c.version, c.progress IS NOT NULL AND c.ended_at IS NULL AS with_progress
      FROM calls c
      WHERE c.project_id = i.project_id AND c.run_id = i.run_id AND c.seq > i.after
        AND CASE
          WHEN f.all_of_it THEN true
          WHEN k.top + k.top_age - age(c.xmin) >= f.oldest THEN
            NOT pg_visible_in_snapshot((k.top + k.top_age - age(c.xmin))::text::xid8, i.since)
            OR coalesce(greatest(c.opened_at, c.claimed_at, c.ended_at) >= f.again_from, false)
          ELSE coalesce(greatest(c.opened_at, c.claimed_at, c.ended_at) >= f.again_from, false)
        END
      ORDER BY c.seq LIMIT $7
    ) p
  ) c
  ORDER BY i.n`,
);

interface LookRow {
  readonly n: number;
  readonly snapshot: string;
  readonly at: Instant;
  readonly started_at: Instant;
  readonly ended: boolean;
  readonly finished: boolean;
  readonly seqs: readonly number[] | null;
  readonly versions: readonly number[] | null;
  readonly with_progress: readonly boolean[] | null;
}

/**
 * Looks which calls of runs have changed, all as of one instant; null where there is no such run.
 *
 * @param limit of calls, for each run; null: none
 */
export async function lookAtRuns(
  db: Database,
  looks: readonly RunLook[],
  limit: number | null,
): Promise<(SeenRun | null)[]> {
  const rows = await db.query<LookRow>(LOOK, [
    numberArray(looks.map(({ projectId }) => projectId)),
    textArray(looks.map(({ id }) => id)),
    textArray(looks.map(({ since }) => since?.snapshot ?? null)),
    numberArray(looks.map(({ since }) => since?.at ?? null)),
    numberArray(looks.map(({ since }) => since?.startedAt ?? null)),
    numberArray(looks.map(({ after }) => after)),
    limit,
  ]);
  const seen = new Array<SeenRun | null>(looks.length).fill(null);
  for (const row of rows) seen[row.n - 1] = toSeen(row);
  return seen;
}

function toSeen({ snapshot, at, started_at: startedAt, ended, finished, ...calls }: LookRow): SeenRun {
  const { seqs, versions, with_progress: progress } = calls;
  return {
    mark: { snapshot, at, startedAt },
    ended,
    finished,
    calls: (seqs ?? []).map((seq, index) => ({
      seq,
      version: versions?.[index] ?? 0,
      hasProgress: progress?.[index] === true,
    })),
  };
}

/** All that callers give of a call, and workers, is together at most so large. */
const SMALL_BYTES = 8_192;

/** The stored size comes first: what is large is not fetched, and what is small may be so by compression only. */
const SMALL = statement(
  "run_watch_small_records",
  `SELECT i.n::integer AS n, ${RECORD_COLUMNS}
  FROM unnest($1::integer[], $2::uuid[], $3::integer[]) WITH ORDINALITY AS i (project_id, run_id, seq, n)
  ${lookUpCall("i")}
  ${LOOK_UP_RUN}
  WHERE CASE
    WHEN pg_column_size(c.input) + coalesce(pg_column_size(c.result), 0) + coalesce(pg_column_size(c.failure), 0)
      + coalesce(pg_column_size(c.progress), 0) + coalesce(pg_column_size(c.attempts), 0) <= ${SMALL_BYTES}
    THEN octet_length(c.input::text) + coalesce(octet_length(c.result::text), 0)
      + coalesce(octet_length(c.failure::text), 0) + coalesce(octet_length(c.progress::text), 0)
      + coalesce(octet_length(array_to_json(c.attempts)::text), 0) <= ${SMALL_BYTES}
    ELSE false
  END`,
);

/** Small calls with all that is stored of them; null where there is none, or one that is large. One statement. */
export async function loadSmallRecords(
  db: Database,
  refs: readonly CallRef[],
): Promise<(CallRecord | null)[]> {
  const rows = await db.query<RecordRow & { readonly n: number }>(SMALL, [
    numberArray(refs.map(({ projectId }) => projectId)),
    textArray(refs.map(({ runId }) => runId)),
    numberArray(refs.map(({ seq }) => seq)),
  ]);
  const records = new Array<CallRecord | null>(refs.length).fill(null);
  for (const row of rows) records[row.n - 1] = toRecord(row);
  return records;
}
