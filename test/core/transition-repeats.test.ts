import { describe, expect, test } from "vitest";
import type { Call } from "../../server/src/core/call.js";
import type { CallEvent } from "../../server/src/core/event.js";
import { decide } from "../../server/src/core/transition.js";
import {
  after,
  failure,
  inOneLine,
  on,
  opened,
  policyOf,
  result,
  retryable,
} from "./transition-situations.js";

const retry = opened(policyOf("retry"));
const claimed = after(retry, on.claim("c1"));
const deferred = after(claimed, on.defer("c1", "h1"));
const queuedByFailure = after(claimed, on.answer("c1", retryable()));
/** Deferred by attempt 1, whose time ran out, and by attempt 2. */
const deferredTwice = after(
  deferred,
  on.due("attempt"),
  on.due("ready"),
  on.claim("c2"),
  on.defer("c2", "h2"),
);

function outcome(call: Call, event: CallEvent): string {
  return inOneLine(decide(call, event, 0));
}

describe("an answer that is sent again", () => {
  test("is taken once and changes nothing (B15)", () => {
    const answer = on.answer("c1", result());
    expect(outcome(after(claimed, answer), answer)).toBe("repeat");
  });

  test("with other text, or another kind, is no repeat", () => {
    const succeeded = after(claimed, on.answer("c1", result("1")));
    expect(outcome(succeeded, on.answer("c1", result("1.0")))).toBe("CLAIM_LOST");
    expect(outcome(succeeded, on.answer("c1", failure()))).toBe("CLAIM_LOST");
    const failed = after(claimed, on.answer("c1", failure()));
    expect(outcome(failed, on.answer("c1", failure({ dataJson: "{}" })))).toBe("CLAIM_LOST");
    expect(outcome(failed, on.answer("c1", result()))).toBe("CLAIM_LOST");
  });

  test("under a claim that was answered by settlement is not its own", () => {
    const settled = after(claimed, on.settle(result()));
    expect(outcome(settled, on.answer("c1", result()))).toBe("CLAIM_LOST");
  });

  test("under a lapsed claim is taken once, too", () => {
    const answer = on.answer("c1", result());
    const answered = after(claimed, on.leaseEnded("c1"), answer);
    expect(outcome(answered, answer)).toBe("repeat");
  });
});

describe("a retryable failure that is sent again", () => {
  const again = on.answer("c1", retryable());

  test("is OK once it has queued the call, during the backoff and after it", () => {
    expect(outcome(queuedByFailure, again)).toBe("repeat");
    expect(outcome(after(queuedByFailure, on.due("ready")), again)).toBe("repeat");
  });

  test("is lost once another claim was made", () => {
    const claimedAgain = after(queuedByFailure, on.due("ready"), on.claim("c2"));
    expect(outcome(claimedAgain, again)).toBe("CLAIM_LOST");
    expect(outcome(after(claimedAgain, on.answer("c2", result())), again)).toBe("CLAIM_LOST");
  });

  test("cannot be followed by a result or a deferral under the same claim", () => {
    expect(outcome(queuedByFailure, on.answer("c1", result()))).toBe("CLAIM_LOST");
    expect(outcome(queuedByFailure, on.answer("c1", failure()))).toBe("CLAIM_LOST");
    expect(outcome(queuedByFailure, on.defer("c1", "h1"))).toBe("CLAIM_LOST");
  });

  test("is a repeat where it ended the call, as no attempt was left", () => {
    const spentOut = after(opened(policyOf("retry", { maxAttempts: 1 })), on.claim("c1"), again);
    expect(spentOut.state).toBe("failed");
    expect(outcome(spentOut, again)).toBe("repeat");
  });
});

describe("a deferral that is sent again", () => {
  const again = on.defer("c1", "h1");

  test("is OK while the call waits, after it timed out, and after it ended (B03)", () => {
    expect(outcome(deferred, again)).toBe("repeat");
    expect(outcome(after(deferred, on.due("attempt")), again)).toBe("repeat");
    expect(outcome(after(deferred, on.byToken(1, "h1", result())), again)).toBe("repeat");
    expect(outcome(after(deferred, on.settle(failure())), again)).toBe("repeat");
    expect(outcome(after(deferred, on.cancel()), again)).toBe("repeat");
  });

  test("with another secret is lost, and leaves the first token good", () => {
    expect(outcome(deferred, on.defer("c1", "h9"))).toBe("CLAIM_LOST");
    expect(outcome(deferred, on.byToken(1, "h9", result()))).toBe("TOKEN_INVALID");
    expect(outcome(deferred, on.byToken(1, "h1", result()))).toBe("succeeded, withdrawn, 1/1");
  });

  test("is lost once another claim was made", () => {
    const claimedAgain = after(deferred, on.due("attempt"), on.due("ready"), on.claim("c2"));
    expect(outcome(claimedAgain, again)).toBe("CLAIM_LOST");
  });

  test("after the deferral, a throw or a value of its handler changes nothing (B10)", () => {
    expect(outcome(deferred, on.answer("c1", result()))).toBe("CALL_DEFERRED");
    expect(outcome(deferred, on.answer("c1", failure({ kind: "exception" })))).toBe("CALL_DEFERRED");
    expect(outcome(deferred, on.leaseEnded("c1"))).toBe("CLAIM_LOST");
  });
});

describe("a token", () => {
  test("of an older attempt is STALE_ATTEMPT, whatever became of the call (B03)", () => {
    const claimedAgain = after(deferred, on.due("attempt"), on.due("ready"), on.claim("c2"));
    const ended = after(deferredTwice, on.byToken(2, "h2", result()));
    for (const call of [claimedAgain, deferredTwice, ended]) {
      expect(outcome(call, on.byToken(1, "h1", result()))).toBe("STALE_ATTEMPT");
    }
  });

  test("completes its call once; again with the same value is OK, with another CALL_ENDED", () => {
    const complete = on.byToken(2, "h2", result());
    const ended = after(deferredTwice, complete);
    expect(ended.state).toBe("succeeded");
    expect(outcome(ended, complete)).toBe("repeat");
    expect(outcome(ended, on.byToken(2, "h2", result("2")))).toBe("CALL_ENDED");
    expect(outcome(ended, on.byToken(2, "h2", failure()))).toBe("CALL_ENDED");
  });

  test("with a secret of one attempt and the number of another is TOKEN_INVALID", () => {
    expect(outcome(deferredTwice, on.byToken(1, "h2", result()))).toBe("TOKEN_INVALID");
    expect(outcome(deferredTwice, on.byToken(2, "h1", result()))).toBe("TOKEN_INVALID");
    expect(outcome(deferredTwice, on.byToken(3, "h2", result()))).toBe("TOKEN_INVALID");
  });

  test("whose secret the worker used in two attempts is good for the last one", () => {
    const same = after(deferred, on.due("attempt"), on.due("ready"), on.claim("c2"), on.defer("c2", "h1"));
    expect(outcome(same, on.byToken(1, "h1", result()))).toBe("STALE_ATTEMPT");
    expect(outcome(same, on.byToken(2, "h1", result()))).toBe("succeeded, withdrawn, 2/2");
  });

  test("that was issued later is as good as the first", () => {
    const issued = after(deferred, on.issueToken("h3"));
    expect(outcome(issued, on.byToken(1, "h3", result()))).toBe("succeeded, withdrawn, 1/1");
    expect(outcome(issued, on.byToken(1, "h1", result()))).toBe("succeeded, withdrawn, 1/1");
  });

  test("answers a call whose deferral timed out, until another worker has it", () => {
    const timedOut = after(deferred, on.due("attempt"));
    expect(outcome(timedOut, on.byToken(1, "h1", result()))).toBe("succeeded, withdrawn, 1/1");
  });
});

describe("a settlement that is sent again", () => {
  test("is OK with the same value and CALL_ENDED with another", () => {
    const settled = after(claimed, on.settle(result()));
    expect(outcome(settled, on.settle(result()))).toBe("repeat");
    expect(outcome(settled, on.settle(result(), 1))).toBe("repeat");
    expect(outcome(settled, on.settle(result("2")))).toBe("CALL_ENDED");
  });

  test("of an attempt that another one followed is STALE_ATTEMPT, also after the end (B01)", () => {
    const claimedAgain = after(claimed, on.leaseEnded("c1"), on.claim("c2"));
    expect(outcome(claimedAgain, on.settle(result(), 1))).toBe("STALE_ATTEMPT");
    expect(outcome(after(claimedAgain, on.answer("c2", result())), on.settle(result(), 1))).toBe(
      "STALE_ATTEMPT",
    );
  });

  test("with a retryable error fails one attempt, not two", () => {
    const settle = on.settle(retryable(), 1);
    const queued = after(claimed, settle);
    expect(outcome(queued, settle)).toBe("no change");
    expect(outcome(after(queued, on.due("ready"), on.claim("c2")), settle)).toBe("STALE_ATTEMPT");
  });
});

describe("a lost claim", () => {
  test("is tried again at once the first time, with backoff after that", () => {
    const once = after(claimed, on.leaseEnded("c1"));
    expect(once).toMatchObject({ state: "queued", backingOff: false });
    const twice = after(once, on.claim("c2"), on.leaseEnded("c2"));
    expect(twice).toMatchObject({ state: "queued", backingOff: true, failures: 2, losses: 2 });
  });

  test("after a failure that the tool stated is still the first lost one", () => {
    const call = after(queuedByFailure, on.due("ready"), on.claim("c2"), on.leaseEnded("c2"));
    expect(call).toMatchObject({ backingOff: false, failures: 2, losses: 1 });
  });
});

describe("an offer that nobody accepts", () => {
  const offer = (call: Call, claimId: string): Call =>
    after(call, on.claim(claimId), on.takeBack(claimId, "undelivered"));
  const once = opened(policyOf("at_most_once"));

  test("is made again at once, then with a backoff that an acceptance ends", () => {
    const first = offer(once, "c1");
    expect(first).toMatchObject({ backingOff: false, offers: 1, attempt: 1, spent: 0 });
    const second = offer(first, "c2");
    expect(second).toMatchObject({ backingOff: true, offers: 2, attempt: 2, spent: 0 });
    const accepted = after(second, on.due("ready"), on.claim("c3"), on.accept("c3"));
    expect(accepted).toMatchObject({ offers: 0, attempt: 3, spent: 1 });
  });

  test("under retry spends its attempts, as it may have arrived (B26)", () => {
    const first = offer(retry, "c1");
    const second = after(offer(first, "c2"), on.due("ready"));
    const third = offer(second, "c3");
    expect(third).toMatchObject({ state: "failed", failure: { kind: "worker_lost", outcomeUnknown: true } });
  });
});
