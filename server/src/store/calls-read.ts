import type { Call, CallRef } from "../core/call.js";
import type { Scope } from "../core/scope.js";
import { numberArray, textArray } from "./array-parameter.js";
import type { Database } from "./database.js";
import {
  BARE_RECORD_COLUMNS,
  CALL_BUT_RESULT,
  CALL_COLUMNS,
  RECORD_COLUMNS,
  toCall,
  toRecord,
  type CallRecord,
  type CallRow,
  type Instant,
  type RecordRow,
} from "./rows.js";
import { lookUpCall, LOOK_UP_RUN, statement } from "./statement.js";

export { listCalls, type CallCursor, type CallFilter } from "./calls-list.js";
export { readTurn, type TurnPage } from "./calls-turn.js";

/** Names a call by its caller's name for it. */
export interface CallKey {
  readonly runId: string;
  readonly key: string;
}

/** As {@link CallKey}, in the whole database. */
export interface ProjectCallKey extends CallKey {
  readonly projectId: number;
}

type Numbered<Row> = Row & { readonly n: number };

const BY_REFS = `FROM unnest($1::integer[], $2::uuid[], $3::integer[])
    WITH ORDINALITY AS i (project_id, run_id, seq, n)
  ${lookUpCall("i")}`;

/*
 * The primary key's index begins like the one of the keys, and would do in the planner's eyes where it knows
 * too little of the run; only the other one has the order that is asked for here.
 */
const BY_KEYS = `FROM unnest($1::integer[], $2::uuid[], $3::text[])
    WITH ORDINALITY AS i (project_id, run_id, key, n)
  CROSS JOIN LATERAL (
    SELECT * FROM calls
    WHERE project_id = i.project_id AND run_id = i.run_id AND key >= i.key AND key <= i.key
    ORDER BY key LIMIT 1
  ) c`;

const LOAD = statement("calls_load", `SELECT i.n::integer AS n, ${CALL_COLUMNS} ${BY_REFS}`);

const LOAD_RECORDS = statement(
  "calls_load_records",
  `SELECT i.n::integer AS n, ${RECORD_COLUMNS} ${BY_REFS} ${LOOK_UP_RUN}`,
);

const LOAD_BARE_RECORDS = statement(
  "calls_load_bare_records",
  `SELECT i.n::integer AS n, ${BARE_RECORD_COLUMNS} ${BY_REFS} ${LOOK_UP_RUN}`,
);

const FIND = statement(
  "calls_find",
  `SELECT i.n::integer AS n, c.project_id, c.run_id, c.seq ${BY_KEYS}
  WHERE ($4::text IS NULL OR c.namespace = $4) AND ($5::uuid IS NULL OR c.run_id = $5)`,
);

const FIND_RECORDS = statement(
  "calls_find_records",
  `SELECT i.n::integer AS n, ${RECORD_COLUMNS} ${BY_KEYS} ${LOOK_UP_RUN}`,
);

/** Calls as the state machine needs them; null where there is none. One statement. */
export async function loadCalls(db: Database, refs: readonly CallRef[]): Promise<(Call | null)[]> {
  return inPlace(await db.query<Numbered<CallRow>>(LOAD, refValues(refs)), refs.length, toCall);
}

/**
 * Calls with all that is stored of them; null where there is none. Without payloads (default: with them)
 * input and result stay empty.
 */
export async function loadRecords(
  db: Database,
  refs: readonly CallRef[],
  { payloads = true }: { readonly payloads?: boolean } = {},
): Promise<(CallRecord | null)[]> {
  const load = payloads ? LOAD_RECORDS : LOAD_BARE_RECORDS;
  return inPlace(await db.query<Numbered<RecordRow>>(load, refValues(refs)), refs.length, toRecord);
}

/** A call as {@link seeCalls} finds it. */
export interface SeenCall {
  readonly call: Call;
  readonly endedAt: Instant | null;
  /** Its result is too large for this, and stays empty here. */
  readonly cut: boolean;
}

/** Results up to this size are small. */
const SMALL_BYTES = 8_192;

/** The size that a result is stored in comes first: it is not fetched for that. */
const SEE = statement(
  "calls_see",
  `SELECT i.n::integer AS n, ${CALL_BUT_RESULT}, micros(c.ended_at) AS ended_at,
    CASE WHEN s.small THEN c.result END AS result, c.result IS NOT NULL AND NOT s.small AS cut
  ${BY_REFS}
  CROSS JOIN LATERAL (
    SELECT CASE
      WHEN pg_column_size(c.result) <= ${SMALL_BYTES} THEN octet_length(c.result::text) <= ${SMALL_BYTES}
      ELSE false
    END AS small
  ) s`,
);

type SeenRow = Numbered<CallRow> & { readonly ended_at: Instant | null; readonly cut: boolean };

/** Calls as they stand, with results that are small; null where there is none. One statement. */
export async function seeCalls(db: Database, refs: readonly CallRef[]): Promise<(SeenCall | null)[]> {
  const rows = await db.query<SeenRow>(SEE, refValues(refs));
  return inPlace(rows, refs.length, (row) => ({ call: toCall(row), endedAt: row.ended_at, cut: row.cut }));
}

/** The ids of calls named by their keys; null where there is none in scope. */
export async function findCalls(
  db: Database,
  { projectId, namespace, runId }: Scope,
  keys: readonly CallKey[],
): Promise<(CallRef | null)[]> {
  const named = keys.map((key) => ({ ...key, projectId }));
  const rows = await db.query<Numbered<Pick<CallRow, "project_id" | "run_id" | "seq">>>(FIND, [
    ...keyValues(named),
    namespace,
    runId ?? null,
  ]);
  return inPlace(rows, keys.length, ({ project_id: projectId, run_id: runId, seq }) => ({
    projectId,
    runId,
    seq,
  }));
}

/** Calls named by their keys, with all that is stored of them; null where there is none. */
export async function findRecords(
  db: Database,
  keys: readonly ProjectCallKey[],
): Promise<(CallRecord | null)[]> {
  return inPlace(await db.query<Numbered<RecordRow>>(FIND_RECORDS, keyValues(keys)), keys.length, toRecord);
}

const OPEN_OF_RUN = statement(
  "calls_open_of_run",
  `SELECT ${CALL_COLUMNS} FROM calls c
  WHERE c.project_id = $1 AND c.run_id = $2 AND c.seq > $3 AND c.state IN ('queued', 'claimed', 'deferred')
  ORDER BY c.seq LIMIT $4`,
);

/** Open calls of a run in the order of their numbers, from the one after `afterSeq` on. */
export async function openCallsOfRun(
  db: Database,
  projectId: number,
  runId: string,
  limit: number,
  afterSeq = 0,
): Promise<Call[]> {
  return (await db.query<CallRow>(OPEN_OF_RUN, [projectId, runId, afterSeq, limit])).map(toCall);
}

const COUNT = statement(
  "calls_count",
  `SELECT count(*) FILTER (WHERE c.state IN ('queued', 'claimed', 'deferred')) AS open, count(*) AS total
  FROM calls c WHERE c.project_id = $1 AND c.run_id = $2`,
);

/** How many calls a run has, and how many of them are open. */
export async function countCalls(
  db: Database,
  projectId: number,
  runId: string,
): Promise<{ readonly open: number; readonly total: number }> {
  const [row] = await db.query<{ open: number; total: number }>(COUNT, [projectId, runId]);
  return row ?? { open: 0, total: 0 };
}

function refValues(refs: readonly CallRef[]): string[] {
  return [
    numberArray(refs.map(({ projectId }) => projectId)),
    textArray(refs.map(({ runId }) => runId)),
    numberArray(refs.map(({ seq }) => seq)),
  ];
}

function keyValues(keys: readonly ProjectCallKey[]): string[] {
  return [
    numberArray(keys.map(({ projectId }) => projectId)),
    textArray(keys.map(({ runId }) => runId)),
    textArray(keys.map(({ key }) => key)),
  ];
}

/** What was read, at the places of what was asked for. */
function inPlace<Row extends { readonly n: number }, T>(
  rows: readonly Row[],
  length: number,
  make: (row: Row) => T,
): (T | null)[] {
  const placed = new Array<T | null>(length).fill(null);
  for (const row of rows) placed[row.n - 1] = make(row);
  return placed;
}
