import type { Failure } from "./failure.js";
import type { Policy } from "./policy.js";

/** Names a call in the whole database. */
export interface CallRef {
  readonly projectId: number;
  readonly runId: string;
  readonly seq: number;
  /** `{run id}/{seq}`, where it is at hand. */
  readonly id?: string;
}

/** Who executes a tool: a worker, or the harness's side. */
export type Executor = "worker" | "client";

/**
 * How a call's last claim stands. `live`: the call is claimed under it. `lapsed`: its lease or attempt
 * timeout ended and the call is queued again; it may still deliver a final answer or a deferral, nothing
 * else, until another claim is made. `answered`: its answer was taken. `withdrawn`: settled, canceled,
 * released or deferred; it can do nothing more.
 */
export type ClaimStanding = "live" | "lapsed" | "answered" | "withdrawn";

/** The last claim made on a call. */
export interface Claim {
  /** 128 random bits. */
  readonly id: string;
  readonly standing: ClaimStanding;
  /** Whether its acceptance is stored; only `at_most_once` stores it. */
  readonly accepted: boolean;
  /** The server's number of the session that holds or held it. */
  readonly session: number;
  /** The worker's name, for people. */
  readonly worker: string;
}

/** The SHA-256 of a completion token's secret, with the attempt that it was made for. */
export interface TokenHash {
  readonly attempt: number;
  /** 64 hex digits. */
  readonly hash: string;
}

/** What was fixed when the call was opened. */
export interface CallFacts extends CallRef {
  /** Made once: what names it in messages, and in memory on the hot path. */
  readonly id: string;
  /** The caller's own name for it inside its run, or the server's. */
  readonly key: string;
  readonly turn: number | null;
  /** The end user that its run acts for. */
  readonly namespace: string;
  readonly tool: string;
  readonly executor: Executor;
  readonly policy: Policy;
}

/** What is counted over a call's whole life. */
export interface CallCounters {
  /** One more at every change: what an UPDATE is guarded by. */
  readonly version: number;
  /** The number of the last claim; 0 before the first. */
  readonly attempt: number;
  /** Claims that may have started. */
  readonly spent: number;
  /** Attempts that failed, lost ones too: what the backoff grows by. */
  readonly failures: number;
  /** Attempts that were lost: the first is retried at once. */
  readonly losses: number;
  /** Offers that nobody accepted: from the second on they back off. */
  readonly offers: number;
  readonly tokens: readonly TokenHash[];
}

/**
 * What holds in each state. Only a claimed call's claim is live and only a queued one's lapsed; a deferred
 * call's is withdrawn, or null for a client call; an ended call's is answered or withdrawn.
 */
export type CallStatus =
  | { readonly state: "queued"; readonly claim: Claim | null; readonly backingOff: boolean }
  | { readonly state: "claimed"; readonly claim: Claim & { readonly standing: "live" } }
  | { readonly state: "deferred"; readonly claim: Claim | null }
  | { readonly state: "succeeded"; readonly claim: Claim | null; readonly resultJson: string }
  | { readonly state: "failed"; readonly claim: Claim | null; readonly failure: Failure }
  | { readonly state: "canceled"; readonly claim: Claim | null; readonly failure: Failure };

/** What a call has in every state. */
export type CallBase = CallFacts & CallCounters;

/** A call as the state machine sees it. */
export type Call = CallBase & CallStatus;

/**
 * A call in one of its states. The fields are written out, here and in {@link nextBase}: V8 makes a hash table of
 * an object of this size that is put together by spreading, which takes twenty times as long.
 */
export function inState(base: CallBase, status: CallStatus): Call {
  return {
    projectId: base.projectId,
    runId: base.runId,
    seq: base.seq,
    id: base.id,
    key: base.key,
    turn: base.turn,
    namespace: base.namespace,
    tool: base.tool,
    executor: base.executor,
    policy: base.policy,
    version: base.version,
    attempt: base.attempt,
    spent: base.spent,
    failures: base.failures,
    losses: base.losses,
    offers: base.offers,
    tokens: base.tokens,
    ...status,
  };
}

/** The part of a call that every state shares, one version on, with the counters that change. */
export function nextBase(call: CallBase, changes: Partial<Omit<CallCounters, "version">> = {}): CallBase {
  return {
    projectId: call.projectId,
    runId: call.runId,
    seq: call.seq,
    id: call.id,
    key: call.key,
    turn: call.turn,
    namespace: call.namespace,
    tool: call.tool,
    executor: call.executor,
    policy: call.policy,
    version: call.version + 1,
    attempt: changes.attempt ?? call.attempt,
    spent: changes.spent ?? call.spent,
    failures: changes.failures ?? call.failures,
    losses: changes.losses ?? call.losses,
    offers: changes.offers ?? call.offers,
    tokens: changes.tokens ?? call.tokens,
  };
}

/** A call that a session holds. */
export type ClaimedCall = Extract<Call, { state: "claimed" }>;

/** One of the six states of a call. */
export type CallState = CallStatus["state"];

/** A call that will never change again. */
export type EndedCall = Extract<Call, { state: "succeeded" | "failed" | "canceled" }>;

/** Whether a call has ended. */
export function isEnded(call: Call): call is EndedCall {
  return call.state === "succeeded" || call.state === "failed" || call.state === "canceled";
}
