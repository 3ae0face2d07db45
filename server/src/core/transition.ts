import {
  cancelWith,
  changed,
  endWith,
  failAttempt,
  isCounted,
  lostFailure,
  queueAgain,
  REPEATED,
  revocation,
  timerFor,
  UNCHANGED,
  withStanding,
} from "./attempt.js";
import { answer, defer, issueToken, settle, settleByToken } from "./answering.js";
import {
  inState,
  isEnded,
  nextBase,
  type Call,
  type CallBase,
  type CallFacts,
  type ClaimedCall,
} from "./call.js";
import { formatDuration } from "./duration.js";
import type { CallEvent, CancelCause, Decision, RevokeCause, TakeBackCause, Timers } from "./event.js";
import { serverFailure, type Failure } from "./failure.js";
import { formatCallId } from "./name.js";
import { backoffMs, type Policy } from "./policy.js";
import { claimLost, refuse } from "./refusal.js";

/** A claim that is about to be made. */
export interface NewClaim {
  readonly claimId: string;
  readonly session: number;
  readonly worker: string;
}

/**
 * The call that an open makes, before it is stored: queued; or, when a worker with credit is at hand,
 * claimed by it; or, for a client call, deferred with its first attempt counted.
 */
export function birth(
  facts: CallFacts,
  claim: NewClaim | null,
): { readonly call: Call; readonly timers: Timers } {
  const { attemptTimeoutMs, totalTimeoutMs, deferTimeoutMs } = facts.policy;
  const total = timerFor(totalTimeoutMs);
  if (facts.executor === "client") {
    return {
      call: inState(newBase(facts, 1, 1), { state: "deferred", claim: null }),
      timers: {
        ready: "clear",
        attempt: deferTimeoutMs === null ? timerFor(attemptTimeoutMs) : "clear",
        defer: timerFor(deferTimeoutMs),
        total,
      },
    };
  }
  if (claim === null) {
    return {
      call: inState(newBase(facts, 0, 0), { state: "queued", claim: null, backingOff: false }),
      timers: { ready: "clear", attempt: "clear", defer: "clear", total },
    };
  }
  return {
    call: claimed(newBase(facts, 1, spentByClaim(facts.policy)), claim),
    timers: { ready: "clear", attempt: timerFor(attemptTimeoutMs), defer: "clear", total },
  };
}

/**
 * The state machine: what an event does to a call. Pure; `random`, from 0 to 1, spreads backoffs. An ended
 * call is never changed (I1); only its last claim can act under it, as its standing allows (I2); and what
 * may have started is counted before it can start (I3, I4).
 */
export function decide(call: Call, event: CallEvent, random: number): Decision {
  switch (event.type) {
    case "claim":
      return claim(call, event);
    case "accept":
      return accept(call, event.claimId);
    case "release":
      return release(call, event.claimId);
    case "take_back":
      return takeBack(call, event.claimId, event.cause, random);
    case "lease_ended":
      return leaseEnded(call, event.claimId, random);
    case "answer":
      return answer(call, event.claimId, event.answer, random);
    case "defer":
      return defer(call, event);
    case "settle":
      return settle(call, event.attempt, event.answer, random);
    case "settle_by_token":
      return settleByToken(call, event, random);
    case "issue_token":
      return issueToken(call, event.tokenHash);
    case "cancel":
      return cancel(call, event.cause);
    case "due":
      return due(call, event, random);
  }
}

function newBase(facts: CallFacts, attempt: 0 | 1, spent: 0 | 1): CallBase {
  return {
    projectId: facts.projectId,
    runId: facts.runId,
    seq: facts.seq,
    id: facts.id,
    key: facts.key,
    turn: facts.turn,
    namespace: facts.namespace,
    tool: facts.tool,
    executor: facts.executor,
    policy: facts.policy,
    version: 1,
    attempt,
    spent,
    failures: 0,
    losses: 0,
    offers: 0,
    tokens: [],
  };
}

/** Under `at_most_once` only the acceptance counts. */
function spentByClaim({ mode }: Policy): 0 | 1 {
  return mode === "retry" ? 1 : 0;
}

function claimed(base: CallBase, made: NewClaim): Call {
  return inState(base, {
    state: "claimed",
    claim: {
      id: made.claimId,
      session: made.session,
      worker: made.worker,
      standing: "live",
      accepted: false,
    },
  });
}

function claim(call: Call, made: NewClaim): Decision {
  if (call.state !== "queued" || call.backingOff) {
    return refuse("CLAIM_LOST", `call ${formatCallId(call)} is ${call.state}; only a queued one is claimed`);
  }
  return changed({
    next: claimed(
      nextBase(call, { attempt: call.attempt + 1, spent: call.spent + spentByClaim(call.policy) }),
      made,
    ),
    timers: {
      ready: "clear",
      attempt: timerFor(call.policy.attemptTimeoutMs),
      defer: "clear",
      total: "keep",
    },
    failedAttempt: null,
    revoked: null,
  });
}

/** Whether the call is claimed under this claim. */
function isHeld(call: Call, claimId: string): call is ClaimedCall {
  return call.state === "claimed" && call.claim.id === claimId;
}

function accept(call: Call, claimId: string): Decision {
  if (!isHeld(call, claimId)) return claimLost(call, claimId);
  if (call.claim.accepted) return REPEATED;
  if (call.policy.mode === "retry") return UNCHANGED;
  return changed({
    next: inState(nextBase(call, { spent: call.spent + 1, offers: 0 }), {
      state: "claimed",
      claim: { ...call.claim, accepted: true },
    }),
    timers: { ready: "clear", attempt: "keep", defer: "clear", total: "keep" },
    failedAttempt: null,
    revoked: null,
  });
}

/** The worker says that its handler was not started: nothing is spent. */
function release(call: Call, claimId: string): Decision {
  if (!isHeld(call, claimId)) {
    const released = call.state === "queued" && call.claim?.id === claimId;
    return released && call.claim.standing === "withdrawn" ? REPEATED : claimLost(call, claimId);
  }
  return offerAgain(call, {
    spent: unspent(call),
    offers: call.offers,
    delayMs: 0,
    standing: "withdrawn",
    revoked: null,
  });
}

/** `spent` without this claim, whose handler was not started. */
function unspent(call: ClaimedCall): number {
  return isCounted(call) ? call.spent - 1 : call.spent;
}

/**
 * As far as anybody knows its handler was not started, so the call is offered again, and is no failed
 * attempt. Not so with a claim whose acceptance is stored, and one that may have arrived and started when no
 * other attempt is left: those are lost.
 */
function takeBack(call: Call, claimId: string, cause: TakeBackCause, random: number): Decision {
  if (!isHeld(call, claimId)) return claimLost(call, claimId);
  const { policy, spent } = call;
  const revoked = cause === "disowned" ? null : "lease_lost";
  if (call.claim.accepted) return lose(call, revoked, random);
  switch (cause) {
    case "unframed":
      return offerAgain(call, {
        spent: unspent(call),
        offers: call.offers,
        delayMs: 0,
        standing: "withdrawn",
        revoked,
      });
    case "disowned":
      return offerAgain(call, {
        ...nextOffer(call, random),
        spent: unspent(call),
        standing: "withdrawn",
        revoked,
      });
    case "undelivered":
      if (policy.mode === "retry" && spent >= policy.maxAttempts) return lose(call, revoked, random);
      return offerAgain(call, {
        ...nextOffer(call, random),
        spent,
        standing: policy.mode === "retry" ? "lapsed" : "withdrawn",
        revoked,
      });
  }
}

function offerAgain(
  call: ClaimedCall,
  how: {
    readonly spent: number;
    readonly offers: number;
    readonly delayMs: number;
    readonly standing: "lapsed" | "withdrawn";
    readonly revoked: RevokeCause | null;
  },
): Decision {
  const base = nextBase(call, { spent: how.spent, offers: how.offers });
  return changed({
    ...queueAgain(base, withStanding(call.claim, how.standing), how.delayMs),
    failedAttempt: null,
    revoked: how.revoked,
  });
}

/** The first offer that nobody accepted is made again at once; further ones back off like retries. */
function nextOffer(call: Call, random: number): { readonly offers: number; readonly delayMs: number } {
  return {
    offers: call.offers + 1,
    delayMs: call.offers === 0 ? 0 : backoffMs(call.policy, call.offers, random),
  };
}

function leaseEnded(call: Call, claimId: string, random: number): Decision {
  if (!isHeld(call, claimId)) return claimLost(call, claimId);
  return isCounted(call) ? lose(call, "lease_lost", random) : takeBack(call, claimId, "undelivered", random);
}

/** Nobody knows how far the claim's handler came. */
function lose(call: ClaimedCall, revoked: RevokeCause | null, random: number): Decision {
  return failAttempt(call, {
    failure: lostFailure(call),
    claim: withStanding(call.claim, "lapsed"),
    revoked,
    lost: true,
    random,
  });
}

const CANCEL_MESSAGES: Readonly<Record<CancelCause, string>> = {
  canceled: "the call was canceled",
  run_ended: "the run ended",
  run_expired: "the run's TTL passed",
};

function cancel(call: Call, cause: CancelCause): Decision {
  if (isEnded(call)) return UNCHANGED;
  const failure = serverFailure("canceled", CANCEL_MESSAGES[cause], call.spent, false);
  return cancelWith(call, failure, revocation(call, cause === "canceled" ? "canceled" : "run_ended"));
}

/** Due times, the most final first. */
function due(call: Call, passed: CallEvent & { type: "due" }, random: number): Decision {
  if (isEnded(call)) return UNCHANGED;
  if (passed.total) {
    const message = tookTooLong("the call", call.policy.totalTimeoutMs);
    return timeOut(call, serverFailure("total_timeout", message, call.spent, false));
  }
  if (passed.defer && call.state === "deferred") {
    const message = "nobody answered the deferred call in time";
    return timeOut(call, serverFailure("defer_timeout", message, call.spent, false));
  }
  if (passed.attempt && call.state !== "queued") {
    const message = tookTooLong(`attempt ${call.attempt}`, call.policy.attemptTimeoutMs);
    return failAttempt(call, {
      failure: serverFailure("attempt_timeout", message, call.spent, true),
      claim: call.state === "claimed" ? withStanding(call.claim, "lapsed") : call.claim,
      revoked: revocation(call, "timeout"),
      random,
    });
  }
  return passed.ready ? backoffOver(call) : UNCHANGED;
}

/** For people; the limit is missing only where the timer was not the policy's. */
function tookTooLong(what: string, limitMs: number | null): string {
  return limitMs === null ? `${what} took too long` : `${what} took longer than ${formatDuration(limitMs)}`;
}

function timeOut(call: Call, failure: Failure): Decision {
  return endWith(
    call,
    { type: "failure", failure },
    { claim: call.claim, revoked: revocation(call, "timeout"), inAttempt: call.state !== "queued" },
  );
}

function backoffOver(call: Call): Decision {
  if (call.state === "queued" && call.backingOff) {
    return changed({ ...queueAgain(nextBase(call), call.claim, 0), failedAttempt: null, revoked: null });
  }
  if (call.state === "deferred" && call.executor === "client") {
    return changed({
      next: inState(nextBase(call), { state: "deferred", claim: call.claim }),
      timers: { ready: "clear", attempt: "keep", defer: "keep", total: "keep" },
      failedAttempt: null,
      revoked: null,
    });
  }
  return UNCHANGED;
}
