import {
  inState,
  nextBase,
  type Call,
  type CallBase,
  type CallCounters,
  type Claim,
  type ClaimedCall,
  type ClaimStanding,
} from "./call.js";
import type { Change, Decision, RevokeCause, Timer, Timers, Verdict } from "./event.js";
import { serverFailure, type Answer, type Failure } from "./failure.js";
import { backoffMs } from "./policy.js";

/** Done, now. */
export const DONE: Verdict = { ok: true, repeat: false };

/** Done before; nothing changed. */
export const REPEATED: Decision = { verdict: { ok: true, repeat: true }, change: null };

/** Nothing to do, and nothing wrong. */
export const UNCHANGED: Decision = { verdict: DONE, change: null };

/** No due time is left: what every end does. */
export const NO_TIMERS: Timers = { ready: "clear", attempt: "clear", defer: "clear", total: "clear" };

/** The timer for a limit: set, or gone where there is no limit. */
export function timerFor(limitMs: number | null): Timer {
  return limitMs === null ? "clear" : { inMs: limitMs };
}

/** A claim that is live no more. */
export function withStanding(claim: Claim, standing: Exclude<ClaimStanding, "live">): Claim {
  return claim.standing === standing ? claim : { ...claim, standing };
}

/**
 * What the claim becomes when something other than its own answer ends or moves the call: a claim that
 * was answered stays so, and any other can do nothing more.
 */
export function withdrawnUnlessAnswered(claim: Claim | null): Claim | null {
  return claim === null || claim.standing === "answered" ? claim : withStanding(claim, "withdrawn");
}

/** Why a live claim ends without its worker's doing; null where no claim is live. */
export function revocation(call: Call, cause: RevokeCause): RevokeCause | null {
  return call.state === "claimed" ? cause : null;
}

/** Whether `spent` counts the call's live claim: under `at_most_once` from its acceptance on. */
export function isCounted(call: ClaimedCall): boolean {
  return call.policy.mode === "retry" || call.claim.accepted;
}

/** What goes with the end of a call. */
export interface Ending {
  /** What its claim becomes: nothing can be done any more under any but an answered one. */
  readonly claim: Claim | null;
  readonly revoked: RevokeCause | null;
  /** Whether a failure is that of the last attempt, too. Not where the call waited for its next one. */
  readonly inAttempt: boolean;
}

/**
 * Ends the call with an answer. Final: no other function makes an ended call, but {@link cancelWith}. An end
 * changes none of the counters, so the store need not write them.
 */
export function endWith(call: Call, answer: Answer, ending: Ending): Decision {
  const claim = withdrawnUnlessAnswered(ending.claim);
  return changed({
    next: inState(
      nextBase(call),
      answer.type === "result"
        ? { state: "succeeded", claim, resultJson: answer.resultJson }
        : { state: "failed", claim, failure: answer.failure },
    ),
    timers: NO_TIMERS,
    failedAttempt:
      ending.inAttempt && answer.type === "failure"
        ? { number: call.attempt, failure: answer.failure }
        : null,
    revoked: ending.revoked,
  });
}

/** Ends the call without an answer; what its attempt came to stays open, so the history gets nothing. */
export function cancelWith(call: Call, failure: Failure, revoked: RevokeCause | null): Decision {
  return changed({
    next: inState(nextBase(call), {
      state: "canceled",
      claim: withdrawnUnlessAnswered(call.claim),
      failure,
    }),
    timers: NO_TIMERS,
    failedAttempt: null,
    revoked,
  });
}

/** How an attempt ended that did not bring an answer. */
export interface FailedAttempt {
  readonly failure: Failure;
  /** What its claim becomes if the call is queued again. */
  readonly claim: Claim | null;
  readonly revoked: RevokeCause | null;
  /** A lost claim is tried again at once the first time. */
  readonly lost?: boolean;
  /** From 0 to 1. */
  readonly random: number;
}

/**
 * A retryable failure: another attempt under `retry` while attempts are left, else the end. A client call
 * counts its next attempt at once and stays deferred through its backoff, so that no worker sees it.
 */
export function failAttempt(call: Call, failed: FailedAttempt): Decision {
  const { failure, claim, revoked, lost = false, random } = failed;
  if (call.policy.mode !== "retry" || call.spent >= call.policy.maxAttempts) {
    return endWith(call, { type: "failure", failure }, { claim, revoked, inAttempt: true });
  }
  const failures = call.failures + 1;
  const atOnce = lost && call.losses === 0;
  const delayMs = atOnce ? 0 : backoffMs(call.policy, failures, random);
  const counted = { failures, losses: call.losses + (lost ? 1 : 0) };
  const again =
    call.executor === "client"
      ? clientAgain(call, counted, delayMs)
      : queueAgain(nextBase(call, counted), claim, delayMs);
  return changed({ ...again, failedAttempt: { number: call.attempt, failure }, revoked });
}

/** A client call's next attempt: counted at once, its limits start after the backoff. */
function clientAgain(
  call: Call,
  counted: Partial<CallCounters>,
  delayMs: number,
): Pick<Change, "next" | "timers"> {
  const { attemptTimeoutMs, deferTimeoutMs } = call.policy;
  const limited = deferTimeoutMs === null && attemptTimeoutMs !== null;
  return {
    next: inState(nextBase(call, { ...counted, attempt: call.attempt + 1, spent: call.spent + 1 }), {
      state: "deferred",
      claim: null,
    }),
    timers: {
      ready: { inMs: delayMs },
      attempt: limited ? { inMs: delayMs + attemptTimeoutMs } : "clear",
      defer: deferTimeoutMs === null ? "clear" : { inMs: delayMs + deferTimeoutMs },
      total: "keep",
    },
  };
}

/** Queued again, claimable now or after a pause. */
export function queueAgain(
  base: CallBase,
  claim: Claim | null,
  delayMs: number,
): Pick<Change, "next" | "timers"> {
  const backingOff = delayMs > 0;
  return {
    next: inState(base, { state: "queued", claim, backingOff }),
    timers: {
      ready: backingOff ? { inMs: delayMs } : "clear",
      attempt: "clear",
      defer: "clear",
      total: "keep",
    },
  };
}

/** The failure of a claim that was lost. */
export function lostFailure(call: ClaimedCall): Failure {
  const worker = call.claim.worker === "" ? "the worker" : `worker ${call.claim.worker}`;
  return serverFailure(
    "worker_lost",
    `${worker} stopped answering during attempt ${call.attempt}`,
    call.spent,
    true,
  );
}

/** A decision that changes the call. */
export function changed(change: Change): Decision {
  return { verdict: DONE, change };
}
