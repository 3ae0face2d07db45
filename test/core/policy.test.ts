import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TrunklineError } from "../../server/src/core/error.js";
import {
  backoffMs,
  checkDurationMs,
  DEFAULT_POLICY,
  resolvePolicy,
  type PolicyPatch,
} from "../../server/src/core/policy.js";

const HEARTBEAT_MS = 5_000;
const TEN_YEARS_MS = 315_360_000_000;

function refusal(act: () => unknown): TrunklineError {
  try {
    act();
  } catch (error) {
    if (error instanceof TrunklineError) return error;
    throw error;
  }
  return expect.unreachable("nothing was refused");
}

describe("resolvePolicy", () => {
  test("gives the documented defaults where nobody says otherwise", () => {
    expect(resolvePolicy(undefined, undefined, HEARTBEAT_MS)).toEqual({
      mode: "retry",
      maxAttempts: 5,
      backoffInitialMs: 1_000,
      backoffFactor: 2,
      backoffMaxMs: 60_000,
      heartbeatTimeoutMs: 60_000,
      detachGraceMs: 10_000,
      attemptTimeoutMs: null,
      totalTimeoutMs: null,
      deferTimeoutMs: null,
    });
  });

  test("gives the one default policy itself, also for fields that are there but not set", () => {
    expect(resolvePolicy({}, {}, HEARTBEAT_MS)).toBe(DEFAULT_POLICY);
    expect(resolvePolicy({ maxAttempts: undefined }, undefined, HEARTBEAT_MS)).toBe(DEFAULT_POLICY);
  });

  test("takes each field from the call, else from the tool, else from the defaults", () => {
    const tool: PolicyPatch = { maxAttempts: 3, backoffInitialMs: 200, attemptTimeoutMs: 9_000 };
    const call: PolicyPatch = { maxAttempts: 7, totalTimeoutMs: 60_000, backoffInitialMs: undefined };
    expect(resolvePolicy(tool, call, HEARTBEAT_MS)).toEqual({
      ...DEFAULT_POLICY,
      maxAttempts: 7,
      backoffInitialMs: 200,
      attemptTimeoutMs: 9_000,
      totalTimeoutMs: 60_000,
    });
  });

  test.each<readonly [keyof PolicyPatch, PolicyPatch]>([
    ["mode", { mode: "at_most_once" }],
    ["maxAttempts", { maxAttempts: 1_000 }],
    ["backoffInitialMs", { backoffInitialMs: 1 }],
    ["backoffFactor", { backoffFactor: 1 }],
    ["backoffMaxMs", { backoffMaxMs: TEN_YEARS_MS }],
    ["heartbeatTimeoutMs", { heartbeatTimeoutMs: 15_000 }],
    ["detachGraceMs", { detachGraceMs: 60_000 }],
    ["attemptTimeoutMs", { attemptTimeoutMs: 1 }],
    ["totalTimeoutMs", { totalTimeoutMs: TEN_YEARS_MS }],
    ["deferTimeoutMs", { deferTimeoutMs: TEN_YEARS_MS }],
  ])("lets a tool or a call set %s up to what is allowed", (field, patch) => {
    expect(resolvePolicy(patch, undefined, HEARTBEAT_MS)[field]).toBe(patch[field]);
    expect(resolvePolicy(undefined, patch, HEARTBEAT_MS)[field]).toBe(patch[field]);
  });

  test("an at_most_once call has one attempt unless somebody says otherwise", () => {
    expect(resolvePolicy({ mode: "at_most_once" }, undefined, HEARTBEAT_MS).maxAttempts).toBe(1);
    expect(resolvePolicy({ maxAttempts: 4 }, { mode: "at_most_once" }, HEARTBEAT_MS).maxAttempts).toBe(4);
    expect(resolvePolicy({ mode: "at_most_once" }, { mode: "retry" }, HEARTBEAT_MS).maxAttempts).toBe(5);
  });

  test("a default detach grace never exceeds a short heartbeat timeout", () => {
    expect(resolvePolicy({ heartbeatTimeoutMs: 3_000 }, undefined, 1_000)).toMatchObject({
      heartbeatTimeoutMs: 3_000,
      detachGraceMs: 3_000,
    });
  });

  test("a server with long heartbeat intervals raises the default heartbeat timeout", () => {
    expect(resolvePolicy(undefined, undefined, 30_000).heartbeatTimeoutMs).toBe(90_000);
    expect(resolvePolicy({ maxAttempts: 2 }, undefined, 20_000).heartbeatTimeoutMs).toBe(60_000);
  });

  const positive = "allowed are whole milliseconds from 1 to ten years";
  test.each<readonly [PolicyPatch, string, string, string]>([
    [{ maxAttempts: 0 }, "policy.max_attempts", "0", "allowed is a whole number from 1 to 1000"],
    [{ maxAttempts: 1_001 }, "policy.max_attempts", "1001", "allowed is a whole number from 1 to 1000"],
    [{ maxAttempts: 1.5 }, "policy.max_attempts", "1.5", "allowed is a whole number from 1 to 1000"],
    [{ backoffFactor: 0.99 }, "policy.backoff_factor", "0.99", "allowed is 1 to 100"],
    [{ backoffFactor: 101 }, "policy.backoff_factor", "101", "allowed is 1 to 100"],
    [{ backoffFactor: Number.NaN }, "policy.backoff_factor", "NaN", "allowed is 1 to 100"],
    [{ backoffInitialMs: 0 }, "policy.backoff_initial", "0 ms", positive],
    [{ backoffMaxMs: -1 }, "policy.backoff_max", "-1 ms", positive],
    [{ heartbeatTimeoutMs: 0.5 }, "policy.heartbeat_timeout", "0.5 ms", positive],
    [{ detachGraceMs: 0 }, "policy.detach_grace", "0 ms", positive],
    [{ attemptTimeoutMs: Number.NaN }, "policy.attempt_timeout", "NaN ms", positive],
    [{ totalTimeoutMs: TEN_YEARS_MS + 1 }, "policy.total_timeout", "315360000001 ms", positive],
    [{ deferTimeoutMs: Number.POSITIVE_INFINITY }, "policy.defer_timeout", "Infinity ms", positive],
    [
      { heartbeatTimeoutMs: 14_999 },
      "policy.heartbeat_timeout",
      "14s999ms",
      "allowed is at least three heartbeat intervals, 15s on this server",
    ],
    [
      { heartbeatTimeoutMs: 20_000, detachGraceMs: 20_001 },
      "policy.detach_grace",
      "20s1ms",
      "allowed is at most the heartbeat timeout, 20s",
    ],
  ])("refuses %o with field, value and what is allowed", (patch, field, value, allowed) => {
    for (const act of [
      () => resolvePolicy(patch, undefined, HEARTBEAT_MS),
      () => resolvePolicy(undefined, patch, HEARTBEAT_MS),
    ]) {
      const error = refusal(act);
      expect(error.reason).toBe("INVALID_FIELD");
      expect(error.message).toBe(`${field} is ${value}; ${allowed}`);
      expect(error.metadata).toEqual({ field, value });
    }
  });

  test("a call cannot get around the rules by halves: what is checked is the whole", () => {
    const error = refusal(() =>
      resolvePolicy({ detachGraceMs: 50_000 }, { heartbeatTimeoutMs: 30_000 }, HEARTBEAT_MS),
    );
    expect(error.message).toBe("policy.detach_grace is 50s; allowed is at most the heartbeat timeout, 30s");
  });
});

describe("checkDurationMs", () => {
  test("allows whole milliseconds from 1 to ten years, and names the field otherwise", () => {
    expect(() => checkDurationMs("defer.timeout", 1)).not.toThrow();
    expect(() => checkDurationMs("defer.timeout", TEN_YEARS_MS)).not.toThrow();
    expect(refusal(() => checkDurationMs("defer.timeout", 0)).message).toMatch(/^defer\.timeout is 0 ms; /);
  });
});

describe("backoffMs", () => {
  test("grows from the first pause by the factor up to the longest, without jitter at random 0", () => {
    const pauses = [1, 2, 3, 4, 5, 6, 7, 8, 1_000].map((failures) => backoffMs(DEFAULT_POLICY, failures, 0));
    expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
  });

  test("is up to a quarter shorter by chance", () => {
    expect(backoffMs(DEFAULT_POLICY, 1, 1)).toBe(750);
    expect(backoffMs(DEFAULT_POLICY, 1, 0.5)).toBe(875);
    expect(backoffMs(DEFAULT_POLICY, 9, 1)).toBe(45_000);
  });

  test("stays the same with factor 1, and is cut where the longest pause is the shorter one", () => {
    expect(backoffMs({ ...DEFAULT_POLICY, backoffFactor: 1 }, 50, 0)).toBe(1_000);
    expect(backoffMs({ ...DEFAULT_POLICY, backoffMaxMs: 10 }, 1, 0)).toBe(10);
  });

  test("is a whole number of milliseconds from 1 to the longest pause, whatever the policy", () => {
    const policy = fc.record({
      backoffInitialMs: fc.integer({ min: 1, max: TEN_YEARS_MS }),
      backoffFactor: fc.double({ min: 1, max: 100, noNaN: true }),
      backoffMaxMs: fc.integer({ min: 1, max: TEN_YEARS_MS }),
    });
    const random = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(policy, fc.integer({ min: 0, max: 100_000 }), random, (fields, failures, drawn) => {
        const given = { ...DEFAULT_POLICY, ...fields };
        const pause = backoffMs(given, failures, drawn);
        const longest = backoffMs(given, failures, 0);
        expect(Number.isSafeInteger(pause)).toBe(true);
        expect(pause).toBeGreaterThanOrEqual(1);
        expect(longest).toBeLessThanOrEqual(given.backoffMaxMs);
        expect(pause).toBeLessThanOrEqual(longest);
        expect(pause).toBeGreaterThanOrEqual(Math.floor(longest * 0.75));
        expect(backoffMs(given, failures + 1, 0)).toBeGreaterThanOrEqual(longest);
      }),
    );
  });
});
