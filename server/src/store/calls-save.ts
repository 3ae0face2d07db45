import { isEnded, type Call, type CallRef } from "../core/call.js";
import type { Change } from "../core/event.js";
import { booleanArray, jsonArray, jsonParameters, numberArray, textArray } from "./array-parameter.js";
import type { Database } from "./database.js";
import { failureToJson, tokensToJson, type Instant } from "./rows.js";
import { sameCall, statement } from "./statement.js";
import { timerMs } from "./timer.js";

/** A change to store, if the row is still what it was decided from. */
export interface SaveItem {
  /** Its version and claim guard the change. */
  readonly before: Call;
  readonly change: Change;
}

/** What became of a {@link SaveItem}. */
export type SaveOutcome =
  | {
      readonly type: "saved";
      readonly endedAt: Instant | null;
      readonly readyAt: Instant | null;
      readonly attemptTimeoutAt: Instant | null;
      readonly deferTimeoutAt: Instant | null;
      /** Not told of calls that ended. */
      readonly runExpiresAt?: Instant | null;
    }
  /** It would have been queued, but its run has ended: it is to be canceled instead. Nothing changed. */
  | { readonly type: "run_ended" }
  /** The row was changed in the meantime, or is gone. Nothing changed. */
  | { readonly type: "stale" };

/*
 * Both statements change a row only while its version and its claim are what the decision was made from,
 * and never an ended one. The version alone would do: every change counts it up. The rest is for the day on
 * which one does not.
 */
const GUARD = `${sameCall("c", "i")}
    AND c.version = i.version AND c.claim_id IS NOT DISTINCT FROM i.old_claim_id
    AND c.state IN ('queued', 'claimed', 'deferred')`;

const END = statement(
  "calls_end",
  `UPDATE calls c SET
    version = c.version + 1,
    state = i.state,
    claim_standing = i.standing,
    backing_off = false,
    result = coalesce($11::json, i.result),
    failure = i.failure,
    attempts = CASE
      WHEN i.failed THEN with_attempt(c.attempts, c.attempt, c.worker, c.claimed_at, i.failure)
      ELSE c.attempts
    END,
    ended_at = now(),
    ready_at = NULL, attempt_timeout_at = NULL, total_timeout_at = NULL, defer_timeout_at = NULL, due_at = NULL
  FROM unnest($1::integer[], $2::uuid[], $3::integer[], $4::integer[], $5::text[],
      $6::call_state[], $7::claim_standing[], $8::json[], $9::json[], $10::boolean[])
    WITH ORDINALITY AS i (project_id, run_id, seq, version, old_claim_id,
      state, standing, result, failure, failed, n)
  WHERE ${GUARD}
  RETURNING i.n::integer AS n, micros(c.ended_at) AS ended_at`,
);

/** Stores changes after which the calls have ended; outcomes in the items' order. */
export async function endCalls(db: Database, items: readonly SaveItem[]): Promise<SaveOutcome[]> {
  const order = lockOrder(items);
  const sorted = order.map(({ item }) => item);
  const [results, onlyResult] = jsonParameters(sorted.map(({ change }) => resultOf(change.next)));
  const rows = await db.query<{ readonly n: number; readonly ended_at: Instant }>(END, [
    ...guardValues(sorted),
    textArray(sorted.map(({ change }) => change.next.state)),
    textArray(sorted.map(({ change }) => change.next.claim?.standing ?? null)),
    results,
    jsonArray(sorted.map(({ change }) => failureOf(change.next))),
    booleanArray(sorted.map(({ change }) => change.failedAttempt !== null)),
    onlyResult,
  ]);
  const outcomes = new Array<SaveOutcome>(items.length).fill(STALE);
  for (const { n, ended_at: endedAt } of rows) {
    const place = order[n - 1]?.place;
    if (place !== undefined) {
      outcomes[place] = {
        type: "saved",
        endedAt,
        readyAt: null,
        attemptTimeoutAt: null,
        deferTimeoutAt: null,
      };
    }
  }
  return outcomes;
}

const STALE: SaveOutcome = { type: "stale" };

/*
 * What is queued again locks its run, so that it is either seen by whoever ends the run or sees the end
 * itself. The run's lateral look-up depends on the batch alone, so it comes before the row's own change.
 */
const SAVE = statement(
  "calls_save",
  `UPDATE calls c SET
    version = c.version + 1,
    state = i.state,
    attempt = i.attempt,
    spent = i.spent,
    failures = i.failures,
    losses = i.losses,
    offers = i.offers,
    backing_off = i.backing_off,
    claim_id = i.claim_id,
    claim_standing = i.standing,
    claim_accepted = i.accepted,
    session = i.session,
    worker = i.worker,
    tokens = i.tokens,
    claimed_at = CASE WHEN i.newly_claimed THEN now() ELSE c.claimed_at END,
    progress = CASE WHEN i.newly_claimed THEN NULL ELSE c.progress END,
    attempts = CASE
      WHEN i.failed IS NULL THEN c.attempts
      ELSE with_attempt(c.attempts, c.attempt, c.worker, c.claimed_at, i.failed)
    END,
    ready_at = timer_at(c.ready_at, i.ready_ms),
    attempt_timeout_at = timer_at(c.attempt_timeout_at, i.attempt_ms),
    total_timeout_at = timer_at(c.total_timeout_at, i.total_ms),
    defer_timeout_at = timer_at(c.defer_timeout_at, i.defer_ms),
    due_at = least(timer_at(c.ready_at, i.ready_ms), timer_at(c.attempt_timeout_at, i.attempt_ms),
      timer_at(c.total_timeout_at, i.total_ms), timer_at(c.defer_timeout_at, i.defer_ms))
  FROM unnest($1::integer[], $2::uuid[], $3::integer[], $4::integer[], $5::text[],
      $6::call_state[], $7::claim_standing[], $8::integer[], $9::integer[], $10::integer[], $11::integer[],
      $12::integer[], $13::boolean[], $14::text[], $15::boolean[], $16::bigint[], $17::text[], $18::json[],
      $19::boolean[], $20::json[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[])
    WITH ORDINALITY AS i (project_id, run_id, seq, version, old_claim_id,
      state, standing, attempt, spent, failures, losses,
      offers, backing_off, claim_id, accepted, session, worker, tokens,
      newly_claimed, failed, ready_ms, attempt_ms, total_ms, defer_ms, n)
  LEFT JOIN LATERAL (
    SELECT r.id FROM runs r
    WHERE i.state = 'queued' AND r.project_id = i.project_id AND r.id = i.run_id AND r.state = 'active'
      AND (r.expires_at IS NULL OR r.expires_at > now())
    FOR KEY SHARE
  ) active ON true
  LEFT JOIN LATERAL (
    SELECT expires_at FROM runs WHERE project_id = i.project_id AND id = i.run_id OFFSET 0
  ) r ON true
  WHERE ${GUARD} AND (i.state <> 'queued' OR active.id IS NOT NULL)
  RETURNING i.n::integer AS n, micros(c.ready_at) AS ready_at,
    micros(c.attempt_timeout_at) AS attempt_timeout_at, micros(c.defer_timeout_at) AS defer_timeout_at,
    micros(r.expires_at) AS run_expires_at`,
);

interface SavedRow {
  readonly n: number;
  readonly ready_at: Instant | null;
  readonly attempt_timeout_at: Instant | null;
  readonly defer_timeout_at: Instant | null;
  readonly run_expires_at: Instant | null;
}

/** Stores changes after which the calls are open; outcomes in the items' order. */
export async function saveCalls(db: Database, items: readonly SaveItem[]): Promise<SaveOutcome[]> {
  const order = lockOrder(items);
  const rows = await db.query<SavedRow>(SAVE, saveValues(order.map(({ item }) => item)));
  const outcomes = new Array<SaveOutcome>(items.length).fill(STALE);
  for (const row of rows) {
    const place = order[row.n - 1]?.place;
    if (place === undefined) continue;
    outcomes[place] = {
      type: "saved",
      endedAt: null,
      readyAt: row.ready_at,
      attemptTimeoutAt: row.attempt_timeout_at,
      deferTimeoutAt: row.defer_timeout_at,
      runExpiresAt: row.run_expires_at,
    };
  }
  await findEndedRuns(db, items, outcomes);
  return outcomes;
}

function saveValues(items: readonly SaveItem[]): unknown[] {
  const nexts = items.map(({ change }) => change.next);
  const timers = items.map(({ change }) => change.timers);
  return [
    ...guardValues(items),
    textArray(nexts.map(({ state }) => state)),
    textArray(nexts.map(({ claim }) => claim?.standing ?? null)),
    numberArray(nexts.map(({ attempt }) => attempt)),
    numberArray(nexts.map(({ spent }) => spent)),
    numberArray(nexts.map(({ failures }) => failures)),
    numberArray(nexts.map(({ losses }) => losses)),
    numberArray(nexts.map(({ offers }) => offers)),
    booleanArray(nexts.map((next) => next.state === "queued" && next.backingOff)),
    textArray(nexts.map(({ claim }) => claim?.id ?? null)),
    booleanArray(nexts.map(({ claim }) => claim?.accepted ?? false)),
    numberArray(nexts.map(({ claim }) => claim?.session ?? null)),
    textArray(nexts.map(({ claim }) => claim?.worker ?? null)),
    jsonArray(nexts.map(({ tokens }) => tokensToJson(tokens))),
    booleanArray(items.map(isNewlyClaimed)),
    jsonArray(
      items.map(({ change }) =>
        change.failedAttempt === null ? null : failureToJson(change.failedAttempt.failure),
      ),
    ),
    numberArray(timers.map(({ ready }) => timerMs(ready))),
    numberArray(timers.map(({ attempt }) => timerMs(attempt))),
    numberArray(timers.map(({ total }) => timerMs(total))),
    numberArray(timers.map(({ defer }) => timerMs(defer))),
  ];
}

const ENDED_RUNS = statement(
  "calls_save_ended_runs",
  `SELECT i.n::integer AS n
  FROM unnest($1::integer[], $2::uuid[]) WITH ORDINALITY AS i (project_id, run_id, n)
  CROSS JOIN LATERAL (SELECT * FROM runs WHERE project_id = i.project_id AND id = i.run_id OFFSET 0) r
  WHERE r.state = 'ended' OR r.expires_at <= now()`,
);

/** Tells those that were not queued because of their run from those whose guard did not hold. */
async function findEndedRuns(
  db: Database,
  items: readonly SaveItem[],
  outcomes: SaveOutcome[],
): Promise<void> {
  const places = items.flatMap(({ change }, place) =>
    change.next.state === "queued" && outcomes[place] === STALE ? [place] : [],
  );
  if (places.length === 0) return;
  const calls = places.flatMap((place) => items[place]?.before ?? []);
  const rows = await db.query<{ readonly n: number }>(ENDED_RUNS, [
    numberArray(calls.map(({ projectId }) => projectId)),
    textArray(calls.map(({ runId }) => runId)),
  ]);
  for (const { n } of rows) {
    const place = places[n - 1];
    if (place !== undefined) outcomes[place] = { type: "run_ended" };
  }
}

function isNewlyClaimed({ before, change }: SaveItem): boolean {
  return change.next.state === "claimed" && change.next.attempt > before.attempt;
}

function guardValues(items: readonly SaveItem[]): string[] {
  return [
    numberArray(items.map(({ before }) => before.projectId)),
    textArray(items.map(({ before }) => before.runId)),
    numberArray(items.map(({ before }) => before.seq)),
    numberArray(items.map(({ before }) => before.version)),
    textArray(items.map(({ before }) => before.claim?.id ?? null)),
  ];
}

function resultOf(call: Call): string | null {
  return call.state === "succeeded" ? call.resultJson : null;
}

function failureOf(call: Call): string | null {
  return isEnded(call) && call.state !== "succeeded" ? failureToJson(call.failure) : null;
}

/** Items in the order in which their rows are locked, the same in every batch, each with its place. */
function lockOrder(items: readonly SaveItem[]): { readonly item: SaveItem; readonly place: number }[] {
  return items
    .map((item, place) => ({ item, place }))
    .sort((a, b) => compareRefs(a.item.before, b.item.before));
}

function compareRefs(a: CallRef, b: CallRef): number {
  if (a.projectId !== b.projectId) return a.projectId - b.projectId;
  if (a.runId !== b.runId) return a.runId < b.runId ? -1 : 1;
  return a.seq - b.seq;
}

const PROGRESS = statement(
  "calls_progress",
  `UPDATE calls c SET progress = i.progress
  FROM unnest($1::integer[], $2::uuid[], $3::integer[], $4::text[], $5::json[])
    AS i (project_id, run_id, seq, claim_id, progress)
  WHERE ${sameCall("c", "i")} AND c.claim_standing = 'live' AND c.claim_id = i.claim_id`,
);

/** What a worker says of one call under its claim. */
export interface ProgressItem {
  readonly ref: CallRef;
  readonly claimId: string;
  readonly progressJson: string;
}

/** Stores the progress of calls that are still claimed so. Counts no version and touches no index. */
export async function saveProgress(db: Database, items: readonly ProgressItem[]): Promise<void> {
  const sorted = [...items].sort((a, b) => compareRefs(a.ref, b.ref));
  await db.query(PROGRESS, [
    numberArray(sorted.map(({ ref }) => ref.projectId)),
    textArray(sorted.map(({ ref }) => ref.runId)),
    numberArray(sorted.map(({ ref }) => ref.seq)),
    textArray(sorted.map(({ claimId }) => claimId)),
    jsonArray(sorted.map(({ progressJson }) => progressJson)),
  ]);
}
