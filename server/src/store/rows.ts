import {
  inState,
  type Call,
  type CallBase,
  type CallState,
  type Claim,
  type ClaimStanding,
  type Executor,
  type TokenHash,
} from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import type { Failure } from "../core/failure.js";
import { formatCallId } from "../core/name.js";
import { DEFAULT_POLICY, samePolicy, type Policy } from "../core/policy.js";

/** Microseconds since 1970 by the database's clock: a safe integer. */
export type Instant = number;

/** A run's labels. */
export type Labels = Readonly<Record<string, string>>;

/** A failed attempt, as the call's history keeps it. */
export interface AttemptRecord {
  readonly number: number;
  /** The worker's name; empty for a client call. */
  readonly worker: string;
  /** Null for a client call. */
  readonly claimedAt: Instant | null;
  readonly endedAt: Instant;
  readonly failure: Failure;
}

/** A call with all that is stored of it. */
export interface CallRecord {
  readonly call: Call;
  /** Empty where the reader was told to leave payloads out; so is a result then. */
  readonly inputJson: string;
  readonly priority: number;
  /** The caller's W3C trace context, or empty. */
  readonly traceparent: string;
  /** Its run's. */
  readonly labels: Labels;
  /** Its run's. */
  readonly toolset: string | null;
  readonly openedAt: Instant;
  /** When the last claim was made. */
  readonly claimedAt: Instant | null;
  readonly endedAt: Instant | null;
  readonly readyAt: Instant | null;
  readonly attemptTimeoutAt: Instant | null;
  readonly totalTimeoutAt: Instant | null;
  readonly deferTimeoutAt: Instant | null;
  readonly runExpiresAt: Instant | null;
  /** What the worker said last under the last claim. */
  readonly progressJson: string | null;
  /** The last failed attempts, the oldest first. */
  readonly attempts: readonly AttemptRecord[];
}

/** A row of {@link CALL_COLUMNS}. */
export interface CallRow {
  readonly project_id: number;
  readonly run_id: string;
  readonly seq: number;
  readonly key: string;
  readonly turn: number | null;
  readonly namespace: string;
  readonly tool: string;
  readonly executor: Executor;
  readonly policy: string | null;
  readonly version: number;
  readonly attempt: number;
  readonly spent: number;
  readonly failures: number;
  readonly losses: number;
  readonly offers: number;
  readonly tokens: string | null;
  readonly state: CallState;
  readonly backing_off: boolean;
  readonly claim_id: string | null;
  readonly claim_standing: ClaimStanding | null;
  readonly claim_accepted: boolean;
  readonly session: number | null;
  readonly worker: string | null;
  readonly result: string | null;
  readonly failure: string | null;
}

/** A row of {@link RECORD_COLUMNS}. */
export interface RecordRow extends CallRow {
  readonly input: string | null;
  readonly priority: number;
  readonly traceparent: string;
  readonly labels: Labels;
  readonly toolset: string | null;
  readonly opened_at: Instant;
  readonly claimed_at: Instant | null;
  readonly ended_at: Instant | null;
  readonly ready_at: Instant | null;
  readonly attempt_timeout_at: Instant | null;
  readonly total_timeout_at: Instant | null;
  readonly defer_timeout_at: Instant | null;
  readonly run_expires_at: Instant | null;
  readonly progress: string | null;
  readonly attempts: string | null;
}

/** What the state machine needs of a call but for its result; its table is named `c`. */
export const CALL_BUT_RESULT = `c.project_id, c.run_id, c.seq, c.key, c.turn, c.namespace, c.tool, c.executor, c.policy,
  c.version, c.attempt, c.spent, c.failures, c.losses, c.offers, c.tokens, c.state, c.backing_off,
  c.claim_id, c.claim_standing, c.claim_accepted, c.session, c.worker, c.failure`;

const RECORD_BUT_PAYLOADS = `c.priority, c.traceparent, c.toolset, r.labels,
  micros(c.opened_at) AS opened_at, micros(c.claimed_at) AS claimed_at, micros(c.ended_at) AS ended_at,
  micros(c.ready_at) AS ready_at, micros(c.attempt_timeout_at) AS attempt_timeout_at,
  micros(c.total_timeout_at) AS total_timeout_at, micros(c.defer_timeout_at) AS defer_timeout_at,
  micros(r.expires_at) AS run_expires_at, array_to_json(c.attempts) AS attempts`;

/** What the state machine needs of a call; its table is named `c`. */
export const CALL_COLUMNS = `${CALL_BUT_RESULT}, c.result`;

/** Everything of a call; its run is named `r`. */
export const RECORD_COLUMNS = `${CALL_COLUMNS}, ${RECORD_BUT_PAYLOADS}, c.input, c.progress`;

/** As {@link RECORD_COLUMNS}, but input and result are left where they are. */
export const BARE_RECORD_COLUMNS = `${CALL_BUT_RESULT}, NULL::json AS result, ${RECORD_BUT_PAYLOADS},
  NULL::json AS input, c.progress`;

/** A call out of its row: the one place where one is made of the other. */
export function toCall(row: CallRow): Call {
  const base: CallBase = {
    projectId: row.project_id,
    runId: row.run_id,
    seq: row.seq,
    id: formatCallId({ runId: row.run_id, seq: row.seq }),
    key: row.key,
    turn: row.turn,
    namespace: row.namespace,
    tool: row.tool,
    executor: row.executor,
    policy: policyFrom(row.policy),
    version: row.version,
    attempt: row.attempt,
    spent: row.spent,
    failures: row.failures,
    losses: row.losses,
    offers: row.offers,
    tokens: tokensFrom(row.tokens),
  };
  const claim = claimOf(row);
  switch (row.state) {
    case "queued":
      return inState(base, { state: "queued", claim, backingOff: row.backing_off });
    case "claimed":
      if (claim === null) throw damaged(row, "it is claimed under no claim");
      return inState(base, { state: "claimed", claim: { ...claim, standing: "live" } });
    case "deferred":
      return inState(base, { state: "deferred", claim });
    case "succeeded":
      return inState(base, { state: "succeeded", claim, resultJson: row.result ?? "" });
    case "failed":
    case "canceled":
      if (row.failure === null) throw damaged(row, `it is ${row.state} without a failure`);
      return inState(base, { state: row.state, claim, failure: failureFrom(row.failure) });
  }
}

/** A record out of its row. */
export function toRecord(row: RecordRow): CallRecord {
  return {
    call: toCall(row),
    inputJson: row.input ?? "",
    priority: row.priority,
    traceparent: row.traceparent,
    labels: row.labels,
    toolset: row.toolset,
    openedAt: row.opened_at,
    claimedAt: row.claimed_at,
    endedAt: row.ended_at,
    readyAt: row.ready_at,
    attemptTimeoutAt: row.attempt_timeout_at,
    totalTimeoutAt: row.total_timeout_at,
    deferTimeoutAt: row.defer_timeout_at,
    runExpiresAt: row.run_expires_at,
    progressJson: row.progress,
    attempts: attemptsFrom(row.attempts),
  };
}

function claimOf(row: CallRow): Claim | null {
  const { claim_id: id, claim_standing: standing, session, worker } = row;
  if (id === null) return null;
  if (standing === null || session === null || worker === null) throw damaged(row, "its claim is not whole");
  return { id, standing, accepted: row.claim_accepted, session, worker };
}

function damaged(row: CallRow, why: string): TrunklineError {
  return new TrunklineError(
    "INTERNAL",
    `the stored call ${formatCallId({ runId: row.run_id, seq: row.seq })} is damaged: ${why}`,
  );
}

/** A policy as it is stored: null for the default one, which most calls have. */
export function policyToJson(policy: Policy): string | null {
  return samePolicy(policy, DEFAULT_POLICY) ? null : JSON.stringify(policy);
}

function policyFrom(text: string | null): Policy {
  // Only this file writes it.
  return text === null ? DEFAULT_POLICY : (JSON.parse(text) as Policy);
}

/** A failure as it is stored. Its data stay text inside the text, so that no digit of them is touched. */
export function failureToJson(failure: Failure): string {
  const { kind, message, dataJson, retryable, outcomeUnknown } = failure;
  return JSON.stringify({ kind, message, dataJson, retryable, outcomeUnknown });
}

function failureFrom(text: string): Failure {
  // Only this file writes it.
  return JSON.parse(text) as Failure;
}

/** Token hashes as they are stored. */
export function tokensToJson(tokens: readonly TokenHash[]): string | null {
  return tokens.length === 0 ? null : JSON.stringify(tokens);
}

/** The tokens in a row's column. */
export function tokensFrom(text: string | null): readonly TokenHash[] {
  // Only this file writes it.
  return text === null ? [] : (JSON.parse(text) as TokenHash[]);
}

function attemptsFrom(text: string | null): readonly AttemptRecord[] {
  // Only the database's function with_attempt writes it, around a failure of this file's.
  return text === null ? [] : (JSON.parse(text) as AttemptRecord[]);
}
