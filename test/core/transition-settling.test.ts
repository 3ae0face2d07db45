import { describe } from "vitest";
import { failure, on, result, retryable } from "./transition-situations.js";
import { checkTable, type TableEvent } from "./transition-table.js";

const NO_TOKEN = { otherwise: "TOKEN_INVALID" };
const ENDED = { otherwise: "CALL_ENDED" };

const FROM_OUTSIDE: readonly TableEvent[] = [
  {
    name: "a settlement with a result",
    of: () => on.settle(result()),
    retry: {
      ...ENDED,
      "queued, never claimed": "succeeded, no claim, 0/0",
      "queued, claim lapsed": "succeeded, withdrawn, 1/1",
      "queued, claim answered": "succeeded, answered, 1/1",
      "queued, claim released": "succeeded, withdrawn, 1/0",
      "queued, deferral timed out": "succeeded, withdrawn, 1/1",
      claimed: "succeeded, withdrawn, 1/1, revoked settled",
      "claimed, no attempt left": "succeeded, withdrawn, 3/3, revoked settled",
      deferred: "succeeded, withdrawn, 1/1",
      "succeeded by its claim": "repeat",
      "settled under its claim": "repeat",
      "completed by token": "repeat",
    },
    atMostOnce: {
      ...ENDED,
      "queued, never claimed": "succeeded, no claim, 0/0",
      "queued, claim released": "succeeded, withdrawn, 1/0",
      "claimed, not accepted": "succeeded, withdrawn, 1/0, revoked settled",
      "claimed, accepted": "succeeded, withdrawn, 1/1, revoked settled",
      deferred: "succeeded, withdrawn, 1/1",
      "succeeded by its claim": "repeat",
      "settled under its claim": "repeat",
      "completed by token": "repeat",
    },
  },
  {
    name: "a settlement with a final error",
    of: () => on.settle(failure()),
    retry: {
      ...ENDED,
      "queued, never claimed": "failed tool, no claim, 0/0",
      "queued, claim lapsed": "failed tool, withdrawn, 1/1",
      "queued, claim answered": "failed tool, answered, 1/1",
      "queued, claim released": "failed tool, withdrawn, 1/0",
      "queued, deferral timed out": "failed tool, withdrawn, 1/1",
      claimed: "failed tool, withdrawn, 1/1, history #1 tool, revoked settled",
      "claimed, no attempt left": "failed tool, withdrawn, 3/3, history #3 tool, revoked settled",
      deferred: "failed tool, withdrawn, 1/1, history #1 tool",
      "failed by its claim": "repeat",
    },
    atMostOnce: {
      ...ENDED,
      "queued, never claimed": "failed tool, no claim, 0/0",
      "queued, claim released": "failed tool, withdrawn, 1/0",
      "claimed, not accepted": "failed tool, withdrawn, 1/0, history #1 tool, revoked settled",
      "claimed, accepted": "failed tool, withdrawn, 1/1, history #1 tool, revoked settled",
      deferred: "failed tool, withdrawn, 1/1, history #1 tool",
      "failed by its claim": "repeat",
    },
  },
  {
    name: "a settlement with a retryable error",
    of: () => on.settle(retryable()),
    retry: {
      ...ENDED,
      "queued, never claimed": "no change",
      "queued, claim lapsed": "no change",
      "queued, claim answered": "no change",
      "queued, claim released": "no change",
      "queued, deferral timed out": "no change",
      claimed: "queued, withdrawn, 1/1, ready 1s, total, history #1 tool, revoked settled",
      "claimed, no attempt left": "failed tool, withdrawn, 3/3, history #3 tool, revoked settled",
      deferred: "queued, withdrawn, 1/1, ready 1s, total, history #1 tool",
    },
    atMostOnce: {
      ...ENDED,
      "queued, never claimed": "no change",
      "queued, claim released": "no change",
      "claimed, not accepted": "failed tool, withdrawn, 1/0, history #1 tool, revoked settled",
      "claimed, accepted": "failed tool, withdrawn, 1/1, history #1 tool, revoked settled",
      deferred: "failed tool, withdrawn, 1/1, history #1 tool",
    },
  },
  {
    name: "a settlement of another attempt",
    of: () => on.settle(result(), 9),
    retry: { otherwise: "STALE_ATTEMPT" },
    atMostOnce: { otherwise: "STALE_ATTEMPT" },
  },
  {
    name: "a completion by token",
    of: () => on.byToken(1, "h1", result()),
    retry: {
      ...NO_TOKEN,
      "queued, deferral timed out": "succeeded, withdrawn, 1/1",
      deferred: "succeeded, withdrawn, 1/1",
      "completed by token": "repeat",
    },
    atMostOnce: {
      ...NO_TOKEN,
      deferred: "succeeded, withdrawn, 1/1",
      "completed by token": "repeat",
    },
  },
  {
    name: "a final failure by token",
    of: () => on.byToken(1, "h1", failure()),
    retry: {
      ...NO_TOKEN,
      "queued, deferral timed out": "failed tool, withdrawn, 1/1",
      deferred: "failed tool, withdrawn, 1/1, history #1 tool",
      "completed by token": "CALL_ENDED",
    },
    atMostOnce: {
      ...NO_TOKEN,
      deferred: "failed tool, withdrawn, 1/1, history #1 tool",
      "completed by token": "CALL_ENDED",
    },
  },
  {
    name: "a retryable failure by token",
    of: () => on.byToken(1, "h1", retryable()),
    retry: {
      ...NO_TOKEN,
      "queued, deferral timed out": "no change",
      deferred: "queued, withdrawn, 1/1, ready 1s, total, history #1 tool",
      "completed by token": "CALL_ENDED",
    },
    atMostOnce: {
      ...NO_TOKEN,
      deferred: "failed tool, withdrawn, 1/1, history #1 tool",
      "completed by token": "CALL_ENDED",
    },
  },
  {
    name: "a completion with another secret",
    of: () => on.byToken(1, "h9", result()),
    retry: NO_TOKEN,
    atMostOnce: NO_TOKEN,
  },
  {
    name: "a new token",
    of: () => on.issueToken("h9"),
    retry: {
      otherwise: "CALL_NOT_DEFERRED",
      deferred: "deferred, withdrawn, 1/1, ready, attempt, defer, total",
    },
    atMostOnce: {
      otherwise: "CALL_NOT_DEFERRED",
      deferred: "deferred, withdrawn, 1/1, ready, attempt, defer, total",
    },
  },
];

describe("an event from outside", () => {
  checkTable(FROM_OUTSIDE);
});
