import { describe, expect, test } from "vitest";
import { claimVerdict } from "../../server/src/core/answering.js";
import { birth } from "../../server/src/core/transition.js";
import {
  after,
  factsOf,
  inOneLine,
  on,
  opened,
  policyOf,
  RETRY_SITUATIONS,
} from "./transition-situations.js";
import type { RetryRow } from "./transition-table.js";

describe("a heartbeat or a hello that names the claim", () => {
  const retry: RetryRow = {
    otherwise: "lost",
    "queued, claim answered": "answered",
    claimed: "kept",
    "claimed, no attempt left": "kept",
    deferred: "deferred",
    "succeeded by its claim": "answered",
    "failed by its claim": "answered",
  };
  test.each(Object.entries(RETRY_SITUATIONS))("%s", (situation, past) => {
    const call = after(opened(policyOf("retry")), ...past);
    const row: Readonly<Record<string, string>> = retry;
    expect(claimVerdict(call, call.claim?.id ?? "c1")).toBe(row[situation] ?? row["otherwise"]);
    expect(claimVerdict(call, "another")).toBe("lost");
  });

  test("an accepted at_most_once claim is confirmed again", () => {
    const call = after(opened(policyOf("at_most_once")), on.claim("c1"));
    expect(claimVerdict(call, "c1")).toBe("kept");
    expect(claimVerdict(after(call, on.accept("c1")), "c1")).toBe("confirmed");
  });
});

describe("a birth", () => {
  const claim = { claimId: "c1", session: 11, worker: "w1" };
  test.each([
    ["queued", policyOf("retry"), "worker", null, "queued, no claim, 0/0, total 1h"],
    ["claimed", policyOf("retry"), "worker", claim, "claimed, live, 1/1, attempt 5m, total 1h"],
    [
      "claimed, at_most_once",
      policyOf("at_most_once"),
      "worker",
      claim,
      "claimed, live, 1/0, attempt 5m, total 1h",
    ],
    ["client", policyOf("retry"), "client", null, "deferred, no claim, 1/1, attempt 5m, total 1h"],
    [
      "client, with a defer timeout in the attempt timeout's place",
      policyOf("retry", { deferTimeoutMs: 7_200_000 }),
      "client",
      null,
      "deferred, no claim, 1/1, defer 2h, total 1h",
    ],
  ] as const)("%s", (_name, policy, executor, by, expected) => {
    const { call, timers } = birth(factsOf(policy, executor), by);
    const verdict = { ok: true, repeat: false } as const;
    const change = { next: call, timers, failedAttempt: null, revoked: null };
    expect(inOneLine({ verdict, change })).toBe(expected);
    expect(call.version).toBe(1);
  });

  test("claimed at once is the same as claimed after it was queued, but for the version", () => {
    const policy = policyOf("retry");
    const atOnce = birth(factsOf(policy), claim).call;
    expect(after(opened(policy), on.claim("c1"))).toEqual({ ...atOnce, version: 2 });
  });
});
