import type { Call, CallFacts, Executor } from "../../server/src/core/call.js";
import { formatDuration } from "../../server/src/core/duration.js";
import type { CallEvent, Decision, Timer } from "../../server/src/core/event.js";
import type { Answer, Failure, FailureKind } from "../../server/src/core/failure.js";
import { DEFAULT_POLICY, type Policy, type PolicyMode } from "../../server/src/core/policy.js";
import { birth, decide } from "../../server/src/core/transition.js";

/** A policy whose timers show: attempt timeout 5 minutes, total timeout 1 hour, three attempts under `retry`. */
export function policyOf(mode: PolicyMode, fields: Partial<Policy> = {}): Policy {
  return {
    ...DEFAULT_POLICY,
    mode,
    maxAttempts: mode === "retry" ? 3 : 1,
    attemptTimeoutMs: 300_000,
    totalTimeoutMs: 3_600_000,
    ...fields,
  };
}

/** What was fixed at the open of every test's call. */
export function factsOf(policy: Policy, executor: Executor = "worker"): CallFacts {
  return {
    projectId: 1,
    runId: "01890000-0000-7000-8000-000000000001",
    seq: 7,
    id: "01890000-0000-7000-8000-000000000001/7",
    key: "step-7",
    turn: 2,
    namespace: "ann",
    tool: "crm.find_customer",
    executor,
    policy,
  };
}

/** A new call. */
export function opened(policy: Policy, executor: Executor = "worker"): Call {
  return birth(factsOf(policy, executor), null).call;
}

/** The call after events that must each be accepted; `random` is 0, so that backoffs are whole. */
export function after(call: Call, ...events: readonly CallEvent[]): Call {
  return events.reduce((now, event) => {
    const { verdict, change } = decide(now, event, 0);
    if (!verdict.ok) throw new Error(`${event.type} on a ${now.state} call: ${verdict.message}`);
    return change === null ? now : change.next;
  }, call);
}

/** A result. */
export function result(resultJson = '{"v":1}'): Answer {
  return { type: "result", resultJson };
}

/** A failure as a worker or a harness sends it. */
export function failure(fields: Partial<Failure> = {}): Answer {
  const base: Failure = {
    kind: "tool",
    message: "no such customer",
    dataJson: null,
    retryable: false,
    outcomeUnknown: false,
  };
  return { type: "failure", failure: { ...base, ...fields } };
}

/** A failure that asks for another attempt. */
export function retryable(fields: Partial<Failure> = {}): Answer {
  return failure({ message: "busy", retryable: true, ...fields });
}

/** Events, shortly. */
export const on = {
  claim: (claimId: string): CallEvent => ({ type: "claim", claimId, session: 11, worker: "w1" }),
  accept: (claimId: string): CallEvent => ({ type: "accept", claimId }),
  release: (claimId: string): CallEvent => ({ type: "release", claimId }),
  takeBack: (claimId: string, cause: "unframed" | "disowned" | "undelivered"): CallEvent => ({
    type: "take_back",
    claimId,
    cause,
  }),
  leaseEnded: (claimId: string): CallEvent => ({ type: "lease_ended", claimId }),
  answer: (claimId: string, given: Answer): CallEvent => ({ type: "answer", claimId, answer: given }),
  defer: (claimId: string, tokenHash: string, timeoutMs: number | null = null): CallEvent => ({
    type: "defer",
    claimId,
    tokenHash,
    timeoutMs,
  }),
  settle: (given: Answer, attempt: number | null = null): CallEvent => ({
    type: "settle",
    attempt,
    answer: given,
  }),
  byToken: (attempt: number, tokenHash: string, given: Answer): CallEvent => ({
    type: "settle_by_token",
    attempt,
    tokenHash,
    answer: given,
  }),
  issueToken: (tokenHash: string): CallEvent => ({ type: "issue_token", tokenHash }),
  cancel: (cause: "canceled" | "run_ended" | "run_expired" = "canceled"): CallEvent => ({
    type: "cancel",
    cause,
  }),
  due: (...names: readonly ("ready" | "attempt" | "defer" | "total")[]): CallEvent => ({
    type: "due",
    ready: names.includes("ready"),
    attempt: names.includes("attempt"),
    defer: names.includes("defer"),
    total: names.includes("total"),
  }),
};

const claim = on.claim("c1");
const lost = [on.leaseEnded("c1"), on.claim("c2"), on.leaseEnded("c2"), on.due("ready"), on.claim("c3")];

/** The situations of a `retry` call that the table of events distinguishes. */
export const RETRY_SITUATIONS = {
  "queued, never claimed": [],
  "queued, claim lapsed": [claim, on.leaseEnded("c1")],
  "queued, claim answered": [claim, on.answer("c1", retryable())],
  "queued, claim released": [claim, on.release("c1")],
  "queued, deferral timed out": [claim, on.defer("c1", "h1"), on.due("attempt")],
  claimed: [claim],
  "claimed, no attempt left": [claim, ...lost],
  deferred: [claim, on.defer("c1", "h1")],
  "succeeded by its claim": [claim, on.answer("c1", result())],
  "failed by its claim": [claim, on.answer("c1", failure())],
  "settled under its claim": [claim, on.settle(result())],
  "completed by token": [claim, on.defer("c1", "h1"), on.byToken(1, "h1", result())],
  canceled: [claim, on.cancel()],
} as const satisfies Record<string, readonly CallEvent[]>;

const accepted = [claim, on.accept("c1")];

/** The situations of an `at_most_once` call that the table of events distinguishes. */
export const AT_MOST_ONCE_SITUATIONS = {
  "queued, never claimed": [],
  "queued, claim released": [claim, on.release("c1")],
  "claimed, not accepted": [claim],
  "claimed, accepted": accepted,
  deferred: [...accepted, on.defer("c1", "h1")],
  "succeeded by its claim": [...accepted, on.answer("c1", result())],
  "failed by its claim": [...accepted, on.answer("c1", failure())],
  "settled under its claim": [...accepted, on.settle(result())],
  "completed by token": [...accepted, on.defer("c1", "h1"), on.byToken(1, "h1", result())],
  canceled: [...accepted, on.cancel()],
} as const satisfies Record<string, readonly CallEvent[]>;

/**
 * A decision in one line: the refusal's reason; `repeat` or `no change`; or the state, the failure's kind
 * (with `?` when its outcome is unknown), the claim's standing, `attempt/spent`, the timers that stay
 * (bare) or are set (with their time), what the history gets, and what revokes the claim.
 */
export function inOneLine({ verdict, change }: Decision): string {
  if (!verdict.ok) return verdict.reason;
  if (change === null) return verdict.repeat ? "repeat" : "no change";
  const { next, timers, failedAttempt, revoked } = change;
  const timer = (name: string, set: Timer): string[] => {
    if (set === "clear") return [];
    return [set === "keep" ? name : `${name} ${formatDuration(set.inMs)}`];
  };
  return [
    next.state + ("failure" in next ? ` ${inOneWord(next.failure)}` : ""),
    next.claim?.standing ?? "no claim",
    `${next.attempt}/${next.spent}`,
    ...timer("ready", timers.ready),
    ...timer("attempt", timers.attempt),
    ...timer("defer", timers.defer),
    ...timer("total", timers.total),
    ...(failedAttempt === null
      ? []
      : [`history #${failedAttempt.number} ${inOneWord(failedAttempt.failure)}`]),
    ...(revoked === null ? [] : [`revoked ${revoked}`]),
  ].join(", ");
}

function inOneWord(given: Failure): `${FailureKind}${"" | "?"}` {
  return `${given.kind}${given.outcomeUnknown ? "?" : ""}`;
}
