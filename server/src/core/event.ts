import type { Call } from "./call.js";
import type { Reason } from "./error.js";
import type { Answer, Failure } from "./failure.js";

/** Why a claim is taken back from a session that did not start it, as far as anybody knows. */
export type TakeBackCause =
  /** Committed, but never put into a frame: its node knows that nobody saw it. */
  | "unframed"
  /** The worker's own word: its hello does not name it. */
  | "disowned"
  /** Neither accepted nor named in time, or unknown to the node that should hold it. */
  | "undelivered";

/** Why a call is canceled. */
export type CancelCause = "canceled" | "run_ended" | "run_expired";

/** What can happen to a call. */
export type CallEvent =
  | { readonly type: "claim"; readonly claimId: string; readonly session: number; readonly worker: string }
  | { readonly type: "accept"; readonly claimId: string }
  | { readonly type: "release"; readonly claimId: string }
  | { readonly type: "take_back"; readonly claimId: string; readonly cause: TakeBackCause }
  | { readonly type: "lease_ended"; readonly claimId: string }
  | { readonly type: "answer"; readonly claimId: string; readonly answer: Answer }
  | {
      readonly type: "defer";
      readonly claimId: string;
      readonly tokenHash: string;
      /** Null: the policy's. */
      readonly timeoutMs: number | null;
    }
  | { readonly type: "settle"; readonly attempt: number | null; readonly answer: Answer }
  | {
      readonly type: "settle_by_token";
      readonly attempt: number;
      readonly tokenHash: string;
      readonly answer: Answer;
    }
  | { readonly type: "issue_token"; readonly tokenHash: string }
  | { readonly type: "cancel"; readonly cause: CancelCause }
  /** Due times that have passed, by the database's clock. */
  | {
      readonly type: "due";
      readonly ready: boolean;
      readonly attempt: boolean;
      readonly defer: boolean;
      readonly total: boolean;
    };

/** What becomes of a due time: stays, goes, or is set to the database's now plus so many milliseconds. */
export type Timer = "keep" | "clear" | { readonly inMs: number };

/** The four due times of a call. */
export interface Timers {
  /** The end of a backoff. */
  readonly ready: Timer;
  readonly attempt: Timer;
  readonly defer: Timer;
  readonly total: Timer;
}

/** A change to be stored: the call after it, and what only the store can work out. */
export interface Change {
  /** `version` is one more than before. */
  readonly next: Call;
  readonly timers: Timers;
  /** A failed attempt to add to the history, with the number it had. */
  readonly failedAttempt: { readonly number: number; readonly failure: Failure } | null;
  /** Why the holder's claim ended without its doing; null when it did not, or when it knows. */
  readonly revoked: RevokeCause | null;
}

/** Why a claim ended without its worker's doing; mirrors the wire's `RevokeReason`. */
export type RevokeCause = "settled" | "canceled" | "run_ended" | "timeout" | "lease_lost";

/** What whoever caused the event is told. */
export type Verdict =
  /** `repeat`: it had been done before; nothing changed. */
  | { readonly ok: true; readonly repeat: boolean }
  | { readonly ok: false; readonly reason: Reason; readonly message: string };

/** What the state machine decides: always a verdict, and a change when something changes. */
export interface Decision {
  readonly verdict: Verdict;
  readonly change: Change | null;
}
