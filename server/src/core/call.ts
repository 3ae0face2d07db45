import type { Failure } from "./failure.js";
import type { Policy } from "./policy.js";

/** Names a call in the whole database. */
export interface CallRef {
  readonly projectId: number;
  readonly runId: string;
  readonly seq: number;
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
  /** The caller's own name for it inside its run, or the server's. */
  readonly key: string;
  readonly turn: number | null;
  /** The end user that its run acts for. */
  readonly namespace: string;
  readonly tool: string;
  readonly executor: Executor;
  readonly policy: Policy;
}

/** What every state has. */
interface CallCounters {
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

/** A call as the state machine sees it. */
export type Call = CallFacts & CallCounters & CallStatus;

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
