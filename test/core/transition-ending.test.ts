import { describe } from "vitest";
import { on } from "./transition-situations.js";
import { checkTable, type TableEvent } from "./transition-table.js";

const NOTHING = { otherwise: "no change" };

const canceled = (revoked: string): Pick<TableEvent, "retry" | "atMostOnce"> => ({
  retry: {
    ...NOTHING,
    "queued, never claimed": "canceled canceled, no claim, 0/0",
    "queued, claim lapsed": "canceled canceled?, withdrawn, 1/1",
    "queued, claim answered": "canceled canceled?, answered, 1/1",
    "queued, claim released": "canceled canceled, withdrawn, 1/0",
    "queued, deferral timed out": "canceled canceled?, withdrawn, 1/1",
    claimed: `canceled canceled?, withdrawn, 1/1, revoked ${revoked}`,
    "claimed, no attempt left": `canceled canceled?, withdrawn, 3/3, revoked ${revoked}`,
    deferred: "canceled canceled?, withdrawn, 1/1",
  },
  atMostOnce: {
    ...NOTHING,
    "queued, never claimed": "canceled canceled, no claim, 0/0",
    "queued, claim released": "canceled canceled, withdrawn, 1/0",
    "claimed, not accepted": `canceled canceled, withdrawn, 1/0, revoked ${revoked}`,
    "claimed, accepted": `canceled canceled?, withdrawn, 1/1, revoked ${revoked}`,
    deferred: "canceled canceled?, withdrawn, 1/1",
  },
});

const BY_TIME_OR_ORDER: readonly TableEvent[] = [
  {
    name: "the end of a backoff",
    of: () => on.due("ready"),
    retry: {
      ...NOTHING,
      "queued, claim answered": "queued, answered, 1/1, total",
      "queued, deferral timed out": "queued, withdrawn, 1/1, total",
    },
    atMostOnce: NOTHING,
  },
  {
    name: "the attempt timeout",
    of: () => on.due("attempt"),
    retry: {
      ...NOTHING,
      claimed: "queued, lapsed, 1/1, ready 1s, total, history #1 attempt_timeout?, revoked timeout",
      "claimed, no attempt left":
        "failed attempt_timeout?, withdrawn, 3/3, history #3 attempt_timeout?, revoked timeout",
      deferred: "queued, withdrawn, 1/1, ready 1s, total, history #1 attempt_timeout?",
    },
    atMostOnce: {
      ...NOTHING,
      "claimed, not accepted":
        "failed attempt_timeout, withdrawn, 1/0, history #1 attempt_timeout, revoked timeout",
      "claimed, accepted":
        "failed attempt_timeout?, withdrawn, 1/1, history #1 attempt_timeout?, revoked timeout",
      deferred: "failed attempt_timeout?, withdrawn, 1/1, history #1 attempt_timeout?",
    },
  },
  {
    name: "the total timeout",
    of: () => on.due("total"),
    retry: {
      ...NOTHING,
      "queued, never claimed": "failed total_timeout, no claim, 0/0",
      "queued, claim lapsed": "failed total_timeout?, withdrawn, 1/1",
      "queued, claim answered": "failed total_timeout?, answered, 1/1",
      "queued, claim released": "failed total_timeout, withdrawn, 1/0",
      "queued, deferral timed out": "failed total_timeout?, withdrawn, 1/1",
      claimed: "failed total_timeout?, withdrawn, 1/1, history #1 total_timeout?, revoked timeout",
      "claimed, no attempt left":
        "failed total_timeout?, withdrawn, 3/3, history #3 total_timeout?, revoked timeout",
      deferred: "failed total_timeout?, withdrawn, 1/1, history #1 total_timeout?",
    },
    atMostOnce: {
      ...NOTHING,
      "queued, never claimed": "failed total_timeout, no claim, 0/0",
      "queued, claim released": "failed total_timeout, withdrawn, 1/0",
      "claimed, not accepted":
        "failed total_timeout, withdrawn, 1/0, history #1 total_timeout, revoked timeout",
      "claimed, accepted":
        "failed total_timeout?, withdrawn, 1/1, history #1 total_timeout?, revoked timeout",
      deferred: "failed total_timeout?, withdrawn, 1/1, history #1 total_timeout?",
    },
  },
  {
    name: "the defer timeout",
    of: () => on.due("defer"),
    retry: { ...NOTHING, deferred: "failed defer_timeout, withdrawn, 1/1, history #1 defer_timeout" },
    atMostOnce: { ...NOTHING, deferred: "failed defer_timeout, withdrawn, 1/1, history #1 defer_timeout" },
  },
  { name: "a cancellation", of: () => on.cancel(), ...canceled("canceled") },
  { name: "the end of the run", of: () => on.cancel("run_ended"), ...canceled("run_ended") },
  { name: "the end of the run's TTL", of: () => on.cancel("run_expired"), ...canceled("run_ended") },
];

describe("a due time or an order to end", () => {
  checkTable(BY_TIME_OR_ORDER);
});
