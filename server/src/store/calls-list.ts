import type { CallState } from "../core/call.js";
import type { Scope } from "../core/scope.js";
import { textArray } from "./array-parameter.js";
import type { Database } from "./database.js";
import {
  BARE_RECORD_COLUMNS,
  RECORD_COLUMNS,
  toRecord,
  type CallRecord,
  type Labels,
  type RecordRow,
} from "./rows.js";
import { LOOK_UP_RUN, statement } from "./statement.js";

/** The last call of a page. */
export interface CallCursor {
  readonly runId: string;
  readonly seq: number;
}

/** Which calls to list. */
export interface CallFilter {
  readonly runId: string | null;
  /** Any of these; none: all. */
  readonly states: readonly CallState[];
  readonly tool: string | null;
  readonly namespace: string | null;
  /** All of these on the call's run; none: any. */
  readonly labels: Labels;
  readonly turn: number | null;
  /** Whether to read input and result too. */
  readonly payloads: boolean;
  readonly limit: number;
  /** The last call of the page before. */
  readonly after: CallCursor | null;
}

const FILTER = `($3::call_state[] IS NULL OR c.state = ANY ($3))
    AND ($4::text IS NULL OR c.tool = $4)
    AND ($5::text IS NULL OR c.namespace = $5)
    AND ($6::jsonb IS NULL OR r.labels @> $6)
    AND ($7::integer IS NULL OR c.turn = $7)`;

const JOINED = `FROM calls c ${LOOK_UP_RUN}`;

const OF_PROJECT = `${JOINED}
  WHERE c.project_id = $1
    AND (c.run_id, c.seq) < (coalesce($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid), $9::integer)
    AND ${FILTER}
  ORDER BY c.run_id DESC, c.seq DESC LIMIT $8`;

const OF_RUN = `${JOINED}
  WHERE c.project_id = $1 AND c.run_id = $2::uuid AND c.seq < $9::integer AND ${FILTER}
  ORDER BY c.seq DESC LIMIT $8`;

/** Of one end user, by the index that has nothing else, which the planner takes only where the state is no parameter. */
const DEFERRED = `${JOINED}
  WHERE c.project_id = $1 AND c.namespace = $5::text AND c.state = 'deferred'
    AND (c.run_id, c.seq) < (coalesce($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid), $9::integer)
    AND ($10::uuid IS NULL OR c.run_id = $10)
    AND ${FILTER}
  ORDER BY c.run_id DESC, c.seq DESC LIMIT $8`;

const LIST = statement("calls_list", `SELECT ${RECORD_COLUMNS} ${OF_PROJECT}`);
const LIST_BARE = statement("calls_list_bare", `SELECT ${BARE_RECORD_COLUMNS} ${OF_PROJECT}`);
const LIST_OF_RUN = statement("calls_list_of_run", `SELECT ${RECORD_COLUMNS} ${OF_RUN}`);
const LIST_OF_RUN_BARE = statement("calls_list_of_run_bare", `SELECT ${BARE_RECORD_COLUMNS} ${OF_RUN}`);
const LIST_DEFERRED = statement("calls_list_deferred", `SELECT ${RECORD_COLUMNS} ${DEFERRED}`);
const LIST_DEFERRED_BARE = statement("calls_list_deferred_bare", `SELECT ${BARE_RECORD_COLUMNS} ${DEFERRED}`);

const MAX_SEQ = 2 ** 31 - 1;

/**
 * Lists calls, those of the newest run first, and within a run the newest first, in pages: `next` is what
 * `after` is for the page that follows.
 */
export async function listCalls(
  db: Database,
  scope: Scope,
  filter: CallFilter,
): Promise<{ readonly records: CallRecord[]; readonly next: CallCursor | null }> {
  const { after, limit } = filter;
  const runId = filter.runId ?? scope.runId ?? null;
  const namespace = filter.namespace ?? scope.namespace;
  const isForeign =
    (scope.namespace !== null && namespace !== scope.namespace) ||
    (scope.runId !== undefined && runId !== scope.runId);
  if (isForeign) return { records: [], next: null };
  // A cursor of another run, which only a caller that changed its filter has, starts the run anew.
  const from = runId === null || after?.runId === runId ? after : null;
  const values = [
    scope.projectId,
    runId ?? from?.runId ?? null,
    filter.states.length === 0 ? null : textArray(filter.states),
    filter.tool,
    namespace,
    Object.keys(filter.labels).length === 0 ? null : JSON.stringify(filter.labels),
    filter.turn,
    limit + 1,
    from?.seq ?? MAX_SEQ,
  ];
  const { payloads, states } = filter;
  const ofProject = payloads ? LIST : LIST_BARE;
  const ofRun = payloads ? LIST_OF_RUN : LIST_OF_RUN_BARE;
  const deferred = payloads ? LIST_DEFERRED : LIST_DEFERRED_BARE;
  const isDeferred = namespace !== null && states.length === 1 && states[0] === "deferred";
  const rows = isDeferred
    ? await db.query<RecordRow>(deferred, [...values, runId])
    : await db.query<RecordRow>(runId === null ? ofProject : ofRun, values);
  const records = rows.slice(0, limit).map(toRecord);
  const last = records.at(-1)?.call;
  const next = rows.length > limit && last !== undefined ? { runId: last.runId, seq: last.seq } : null;
  return { records, next };
}
