import { describe, expect, test } from "vitest";
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
import { checkTable, type TableEvent } from "./transition-table.js";

const LOST = { otherwise: "CLAIM_LOST" };
const LAST_LOST = "failed worker_lost?, withdrawn, 3/3, history #3 worker_lost?";
const ONCE_LOST = "failed worker_lost?, withdrawn, 1/1, history #1 worker_lost?";

const UNDER_A_CLAIM: readonly TableEvent[] = [
  {
    name: "a claim",
    of: () => on.claim("c9"),
    retry: {
      ...LOST,
      "queued, never claimed": "claimed, live, 1/1, attempt 5m, total",
      "queued, claim lapsed": "claimed, live, 2/2, attempt 5m, total",
      "queued, claim released": "claimed, live, 2/1, attempt 5m, total",
    },
    atMostOnce: {
      ...LOST,
      "queued, never claimed": "claimed, live, 1/0, attempt 5m, total",
      "queued, claim released": "claimed, live, 2/0, attempt 5m, total",
    },
  },
  {
    name: "an acceptance",
    of: on.accept,
    retry: { ...LOST, claimed: "no change", "claimed, no attempt left": "no change" },
    atMostOnce: {
      ...LOST,
      "claimed, not accepted": "claimed, live, 1/1, attempt, total",
      "claimed, accepted": "repeat",
    },
  },
  {
    name: "a release",
    of: on.release,
    retry: {
      ...LOST,
      "queued, claim released": "repeat",
      "queued, deferral timed out": "repeat",
      claimed: "queued, withdrawn, 1/0, total",
      "claimed, no attempt left": "queued, withdrawn, 3/2, total",
    },
    atMostOnce: {
      ...LOST,
      "queued, claim released": "repeat",
      "claimed, not accepted": "queued, withdrawn, 1/0, total",
      "claimed, accepted": "queued, withdrawn, 1/0, total",
    },
  },
  {
    name: "a claim that was never framed",
    of: (id) => on.takeBack(id, "unframed"),
    retry: {
      ...LOST,
      claimed: "queued, withdrawn, 1/0, total, revoked lease_lost",
      "claimed, no attempt left": "queued, withdrawn, 3/2, total, revoked lease_lost",
    },
    atMostOnce: {
      ...LOST,
      "claimed, not accepted": "queued, withdrawn, 1/0, total, revoked lease_lost",
      "claimed, accepted": `${ONCE_LOST}, revoked lease_lost`,
    },
  },
  {
    name: "a hello that does not name the claim",
    of: (id) => on.takeBack(id, "disowned"),
    retry: {
      ...LOST,
      claimed: "queued, withdrawn, 1/0, total",
      "claimed, no attempt left": "queued, withdrawn, 3/2, total",
    },
    atMostOnce: {
      ...LOST,
      "claimed, not accepted": "queued, withdrawn, 1/0, total",
      "claimed, accepted": ONCE_LOST,
    },
  },
  {
    name: "an undelivered claim",
    of: (id) => on.takeBack(id, "undelivered"),
    retry: {
      ...LOST,
      claimed: "queued, lapsed, 1/1, total, revoked lease_lost",
      "claimed, no attempt left": `${LAST_LOST}, revoked lease_lost`,
    },
    atMostOnce: {
      ...LOST,
      "claimed, not accepted": "queued, withdrawn, 1/0, total, revoked lease_lost",
      "claimed, accepted": `${ONCE_LOST}, revoked lease_lost`,
    },
  },
  {
    name: "the end of a lease",
    of: on.leaseEnded,
    retry: {
      ...LOST,
      claimed: "queued, lapsed, 1/1, total, history #1 worker_lost?, revoked lease_lost",
      "claimed, no attempt left": `${LAST_LOST}, revoked lease_lost`,
    },
    atMostOnce: {
      ...LOST,
      "claimed, not accepted": "queued, withdrawn, 1/0, total, revoked lease_lost",
      "claimed, accepted": `${ONCE_LOST}, revoked lease_lost`,
    },
  },
  {
    name: "a result under the claim",
    of: (id) => on.answer(id, result()),
    retry: {
      ...LOST,
      "queued, claim lapsed": "succeeded, answered, 1/1",
      claimed: "succeeded, answered, 1/1",
      "claimed, no attempt left": "succeeded, answered, 3/3",
      deferred: "CALL_DEFERRED",
      "succeeded by its claim": "repeat",
    },
    atMostOnce: {
      ...LOST,
      "claimed, not accepted": "succeeded, answered, 1/0",
      "claimed, accepted": "succeeded, answered, 1/1",
      deferred: "CALL_DEFERRED",
      "succeeded by its claim": "repeat",
    },
  },
  {
    name: "a final failure under the claim",
    of: (id) => on.answer(id, failure()),
    retry: {
      ...LOST,
      "queued, claim lapsed": "failed tool, answered, 1/1, history #1 tool",
      claimed: "failed tool, answered, 1/1, history #1 tool",
      "claimed, no attempt left": "failed tool, answered, 3/3, history #3 tool",
      deferred: "CALL_DEFERRED",
      "failed by its claim": "repeat",
    },
    atMostOnce: {
      ...LOST,
      "claimed, not accepted": "failed tool, answered, 1/0, history #1 tool",
      "claimed, accepted": "failed tool, answered, 1/1, history #1 tool",
      deferred: "CALL_DEFERRED",
      "failed by its claim": "repeat",
    },
  },
  {
    name: "a retryable failure under the claim",
    of: (id) => on.answer(id, retryable()),
    retry: {
      ...LOST,
      "queued, claim lapsed": "no change",
      "queued, claim answered": "repeat",
      claimed: "queued, answered, 1/1, ready 1s, total, history #1 tool",
      "claimed, no attempt left": "failed tool, answered, 3/3, history #3 tool",
      deferred: "CALL_DEFERRED",
    },
    atMostOnce: {
      ...LOST,
      "claimed, not accepted": "failed tool, answered, 1/0, history #1 tool",
      "claimed, accepted": "failed tool, answered, 1/1, history #1 tool",
      deferred: "CALL_DEFERRED",
    },
  },
  {
    name: "a deferral without a limit",
    of: (id) => on.defer(id, "h1"),
    retry: {
      ...LOST,
      "queued, claim lapsed": "deferred, withdrawn, 1/1, attempt 5m, total",
      "queued, deferral timed out": "repeat",
      claimed: "deferred, withdrawn, 1/1, attempt, total",
      "claimed, no attempt left": "deferred, withdrawn, 3/3, attempt, total",
      deferred: "repeat",
      "completed by token": "repeat",
    },
    atMostOnce: {
      ...LOST,
      "claimed, not accepted": "deferred, withdrawn, 1/1, attempt, total",
      "claimed, accepted": "deferred, withdrawn, 1/1, attempt, total",
      deferred: "repeat",
      "completed by token": "repeat",
    },
  },
  {
    name: "a deferral for two days with another token",
    of: (id) => on.defer(id, "h2", 172_800_000),
    retry: {
      ...LOST,
      "queued, claim lapsed": "deferred, withdrawn, 1/1, defer 2d, total",
      claimed: "deferred, withdrawn, 1/1, defer 2d, total",
      "claimed, no attempt left": "deferred, withdrawn, 3/3, defer 2d, total",
    },
    atMostOnce: {
      ...LOST,
      "claimed, not accepted": "deferred, withdrawn, 1/1, defer 2d, total",
      "claimed, accepted": "deferred, withdrawn, 1/1, defer 2d, total",
    },
  },
];

describe("an event under the last claim", () => {
  checkTable(UNDER_A_CLAIM);
});

describe("an event under a claim that another one followed", () => {
  const under = UNDER_A_CLAIM.filter(({ name }) => name !== "a claim");
  const situations = {
    "lost, claimed again": [on.claim("c1"), on.leaseEnded("c1"), on.claim("c2")],
    "lost, claimed again and deferred": [
      on.claim("c1"),
      on.leaseEnded("c1"),
      on.claim("c2"),
      on.defer("c2", "h2"),
    ],
    "released, claimed again and answered": [
      on.claim("c1"),
      on.release("c1"),
      on.claim("c2"),
      on.answer("c2", result()),
    ],
  };
  for (const [situation, past] of Object.entries(situations)) {
    test.each(under)(`$name, ${situation}: CLAIM_LOST (B01)`, ({ of }) => {
      const call = after(opened(policyOf("retry")), ...past);
      expect(inOneLine(decide(call, of("c1"), 0))).toBe("CLAIM_LOST");
    });
  }
});
