import {
  changed,
  endWith,
  failAttempt,
  isCounted,
  REPEATED,
  revocation,
  timerFor,
  UNCHANGED,
  withdrawnUnlessAnswered,
  withStanding,
} from "./attempt.js";
import { inState, isEnded, nextBase, type Call, type EndedCall } from "./call.js";
import type { CallEvent, Decision, Timer } from "./event.js";
import { sameFailure, type Answer, type Failure } from "./failure.js";
import { LIMITS } from "./limits.js";
import { formatCallId } from "./name.js";
import { claimLost, refuse, staleAttempt } from "./refusal.js";
import { hasToken } from "./token.js";

/** The failure in an answer that asks for another attempt; whether there is one, {@link failAttempt} says. */
function retryableFailure(given: Answer): Failure | null {
  return given.type === "failure" && given.failure.retryable ? given.failure : null;
}

/** Whether an ended call ended with just this answer. */
function endedWith(call: EndedCall, given: Answer): boolean {
  if (given.type === "result") return call.state === "succeeded" && call.resultJson === given.resultJson;
  return call.state === "failed" && sameFailure(call.failure, given.failure);
}

/** A worker's answer under its claim. */
export function answer(call: Call, claimId: string, given: Answer, random: number): Decision {
  const { claim } = call;
  if (claim?.id !== claimId) return claimLost(call, claimId);
  if (isEnded(call)) {
    return claim.standing === "answered" && endedWith(call, given) ? REPEATED : claimLost(call, claimId);
  }
  if (call.state === "deferred") {
    return refuse(
      "CALL_DEFERRED",
      `call ${formatCallId(call)} is deferred; it is answered by its token or its id, not under its claim`,
    );
  }
  const failure = retryableFailure(given);
  const held = call.state === "claimed";
  if (!held && claim.standing !== "lapsed") {
    // An answer that left the call queued was a retryable failure.
    return failure !== null && claim.standing === "answered" ? REPEATED : claimLost(call, claimId);
  }
  const answered = withStanding(claim, "answered");
  if (failure === null) return endWith(call, given, { claim: answered, revoked: null, inAttempt: true });
  return held ? failAttempt(call, { failure, claim: answered, revoked: null, random }) : UNCHANGED;
}

/** A worker hands its claim back for a token. */
export function defer(call: Call, event: CallEvent & { type: "defer" }): Decision {
  const { claim } = call;
  if (claim?.id !== event.claimId) return claimLost(call, event.claimId);
  if (hasToken(call.tokens, call.attempt, event.tokenHash)) return REPEATED;
  if (claim.standing !== "live" && claim.standing !== "lapsed") return claimLost(call, event.claimId);
  const timeoutMs = event.timeoutMs ?? call.policy.deferTimeoutMs;
  return changed({
    next: inState(
      nextBase(call, {
        // A worker that defers has started, whether its acceptance was stored or not.
        spent: call.state === "claimed" && !isCounted(call) ? call.spent + 1 : call.spent,
        tokens: [...call.tokens, { attempt: call.attempt, hash: event.tokenHash }],
      }),
      { state: "deferred", claim: withStanding(claim, "withdrawn") },
    ),
    timers: {
      ready: "clear",
      attempt: timeoutMs === null ? attemptTimer(call) : "clear",
      defer: timerFor(timeoutMs),
      total: "keep",
    },
    failedAttempt: null,
    revoked: null,
  });
}

/** The attempt's time goes on; that of a lapsed claim went with it and begins anew, so that it still ends. */
function attemptTimer(call: Call): Timer {
  return call.state === "claimed" ? "keep" : timerFor(call.policy.attemptTimeoutMs);
}

/** An answer from the harness's side, by the call's id or key. */
export function settle(call: Call, attempt: number | null, given: Answer, random: number): Decision {
  if (attempt !== null && attempt !== call.attempt) return staleAttempt(call, attempt);
  return answerFromOutside(call, given, random);
}

/** An answer by whoever holds a completion token. */
export function settleByToken(
  call: Call,
  event: CallEvent & { type: "settle_by_token" },
  random: number,
): Decision {
  if (!hasToken(call.tokens, event.attempt, event.tokenHash)) {
    return refuse("TOKEN_INVALID", "no deferred call is waiting for this token");
  }
  if (event.attempt !== call.attempt) return staleAttempt(call, event.attempt);
  return answerFromOutside(call, event.answer, random);
}

function answerFromOutside(call: Call, given: Answer, random: number): Decision {
  if (isEnded(call)) {
    if (endedWith(call, given)) return REPEATED;
    return refuse("CALL_ENDED", `call ${formatCallId(call)} has ended: ${call.state}`);
  }
  const { claim } = call;
  const revoked = revocation(call, "settled");
  const failure = retryableFailure(given);
  if (failure === null) return endWith(call, given, { claim, revoked, inAttempt: call.state !== "queued" });
  if (call.state === "queued") return UNCHANGED;
  return failAttempt(call, { failure, claim: withdrawnUnlessAnswered(claim), revoked, random });
}

/** A new token for a deferred call; those of the same attempt stay good. */
export function issueToken(call: Call, tokenHash: string): Decision {
  if (call.state !== "deferred") {
    return refuse(
      "CALL_NOT_DEFERRED",
      `call ${formatCallId(call)} is ${call.state}; only a deferred one has a token`,
    );
  }
  if (call.tokens.length >= LIMITS.tokensPerCall) {
    return refuse(
      "LIMIT_EXCEEDED",
      `call ${formatCallId(call)} has ${call.tokens.length} tokens; allowed are ${LIMITS.tokensPerCall}, or settle it by its id`,
    );
  }
  return changed({
    next: inState(nextBase(call, { tokens: [...call.tokens, { attempt: call.attempt, hash: tokenHash }] }), {
      state: "deferred",
      claim: call.claim,
    }),
    timers: { ready: "keep", attempt: "keep", defer: "keep", total: "keep" },
    failedAttempt: null,
    revoked: null,
  });
}

/** How a claim that a worker names in its hello stands. */
export function claimVerdict(
  call: Call,
  claimId: string,
): "kept" | "confirmed" | "deferred" | "answered" | "lost" {
  const { claim } = call;
  if (claim?.id !== claimId) return "lost";
  if (call.state === "claimed") return claim.accepted ? "confirmed" : "kept";
  if (call.state === "deferred") return "deferred";
  return claim.standing === "answered" ? "answered" : "lost";
}
