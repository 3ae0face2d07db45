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

describe("an event on a client call", () => {
  const born = opened(policyOf("retry"), "client");
  const withToken = after(born, on.issueToken("h1"));
  const again = after(withToken, on.settle(retryable()));
  const last = after(again, on.due("ready"), on.settle(retryable()), on.due("ready"));
  const once = after(opened(policyOf("at_most_once"), "client"), on.issueToken("h1"));
  const byToken = on.byToken(1, "h1", result());
  test.each<readonly [string, Call, CallEvent, string]>([
    ["a claim, just born", born, on.claim("c9"), "CLAIM_LOST"],
    ["a claim, in its backoff", again, on.claim("c9"), "CLAIM_LOST"],
    ["an answer of a worker", born, on.answer("c9", result()), "CLAIM_LOST"],
    ["a result", born, on.settle(result()), "succeeded, no claim, 1/1"],
    ["a result with the attempt", born, on.settle(result(), 1), "succeeded, no claim, 1/1"],
    ["a result by token", withToken, byToken, "succeeded, no claim, 1/1"],
    ["a result in its backoff", again, on.settle(result()), "succeeded, no claim, 2/2"],
    ["a result of the first attempt, in the second", again, on.settle(result(), 1), "STALE_ATTEMPT"],
    ["a result by the first token, in the second", again, byToken, "STALE_ATTEMPT"],
    ["a final error", born, on.settle(failure()), "failed tool, no claim, 1/1, history #1 tool"],
    [
      "a retryable error",
      born,
      on.settle(retryable()),
      "deferred, no claim, 2/2, ready 1s, attempt 5m1s, total, history #1 tool",
    ],
    [
      "a retryable error, at_most_once",
      once,
      on.settle(retryable()),
      "failed tool, no claim, 1/1, history #1 tool",
    ],
    ["the last retryable error", last, on.settle(retryable()), "failed tool, no claim, 3/3, history #3 tool"],
    [
      "the attempt timeout",
      born,
      on.due("attempt"),
      "deferred, no claim, 2/2, ready 1s, attempt 5m1s, total, history #1 attempt_timeout?",
    ],
    [
      "the attempt timeout, at_most_once",
      once,
      on.due("attempt"),
      "failed attempt_timeout?, no claim, 1/1, history #1 attempt_timeout?",
    ],
    ["the end of its backoff", again, on.due("ready"), "deferred, no claim, 2/2, attempt, defer, total"],
    [
      "the defer timeout",
      born,
      on.due("defer"),
      "failed defer_timeout, no claim, 1/1, history #1 defer_timeout",
    ],
    ["a cancellation", born, on.cancel(), "canceled canceled?, no claim, 1/1"],
  ])("%s", (_name, call, event, expected) => {
    expect(inOneLine(decide(call, event, 0))).toBe(expected);
  });
});
