import { formatDuration } from "./duration.js";
import { TrunklineError } from "./error.js";
import { LIMITS } from "./limits.js";

/** What happens when an attempt does not end well. */
export type PolicyMode = "retry" | "at_most_once";

/** How a call is retried and how long things may take; fixed at open. Null: no limit. */
export interface Policy {
  readonly mode: PolicyMode;
  /** Claims that may have started. */
  readonly maxAttempts: number;
  readonly backoffInitialMs: number;
  readonly backoffFactor: number;
  readonly backoffMaxMs: number;
  readonly heartbeatTimeoutMs: number;
  readonly detachGraceMs: number;
  readonly attemptTimeoutMs: number | null;
  readonly totalTimeoutMs: number | null;
  readonly deferTimeoutMs: number | null;
}

/** The fields of a policy that a tool or a call sets; the rest comes from below. */
export type PolicyPatch = { readonly [K in keyof Policy]?: NonNullable<Policy[K]> | undefined };

/** What holds where neither the call nor its tool says otherwise. */
export const DEFAULT_POLICY: Policy = {
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
};

// DEFAULT_POLICY has each field of a policy, so these are all of them.
const POLICY_FIELDS = Object.keys(DEFAULT_POLICY) as readonly (keyof Policy)[];

const NO_PATCH: PolicyPatch = {};

/** Fewer, and one late heartbeat would lose a claim. */
const HEARTBEATS_IN_TIMEOUT = 3;

/**
 * The policy of a call: its own fields over its tool's over the defaults. Where nobody set them,
 * `heartbeatTimeoutMs` is at least three heartbeat intervals, `detachGraceMs` at most the heartbeat timeout,
 * and `maxAttempts` 1 under `at_most_once`.
 *
 * @param heartbeatIntervalMs how often the server lets workers send a heartbeat
 * @throws TrunklineError INVALID_FIELD where a field is outside what it allows.
 */
export function resolvePolicy(
  tool: PolicyPatch = NO_PATCH,
  call: PolicyPatch = NO_PATCH,
  heartbeatIntervalMs: number,
): Policy {
  const leastHeartbeatMs = HEARTBEATS_IN_TIMEOUT * heartbeatIntervalMs;
  if (isEmpty(tool) && isEmpty(call) && DEFAULT_POLICY.heartbeatTimeoutMs >= leastHeartbeatMs) {
    return DEFAULT_POLICY;
  }
  const set: SetFields = { ...setFields(tool), ...setFields(call) };
  const mode = set.mode ?? DEFAULT_POLICY.mode;
  const heartbeatTimeoutMs =
    set.heartbeatTimeoutMs ?? Math.max(DEFAULT_POLICY.heartbeatTimeoutMs, leastHeartbeatMs);
  const policy: Policy = {
    ...DEFAULT_POLICY,
    ...set,
    mode,
    maxAttempts: set.maxAttempts ?? (mode === "at_most_once" ? 1 : DEFAULT_POLICY.maxAttempts),
    heartbeatTimeoutMs,
    detachGraceMs: set.detachGraceMs ?? Math.min(DEFAULT_POLICY.detachGraceMs, heartbeatTimeoutMs),
  };
  checkPolicy(policy, leastHeartbeatMs);
  return policy;
}

/** Whether a patch sets nothing. */
function isEmpty(patch: PolicyPatch): boolean {
  return patch === NO_PATCH || Object.values(patch).every((value) => value === undefined);
}

/** A patch whose missing fields are really missing. */
type SetFields = { -readonly [K in keyof PolicyPatch]: NonNullable<PolicyPatch[K]> };

function setFields(patch: PolicyPatch): SetFields {
  return Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
}

function checkPolicy(policy: Policy, leastHeartbeatMs: number): void {
  checkWhole("policy.max_attempts", policy.maxAttempts, 1, LIMITS.maxAttempts);
  checkDurationMs("policy.backoff_initial", policy.backoffInitialMs);
  checkDurationMs("policy.backoff_max", policy.backoffMaxMs);
  checkDurationMs("policy.heartbeat_timeout", policy.heartbeatTimeoutMs);
  checkDurationMs("policy.detach_grace", policy.detachGraceMs);
  if (policy.attemptTimeoutMs !== null) checkDurationMs("policy.attempt_timeout", policy.attemptTimeoutMs);
  if (policy.totalTimeoutMs !== null) checkDurationMs("policy.total_timeout", policy.totalTimeoutMs);
  if (policy.deferTimeoutMs !== null) checkDurationMs("policy.defer_timeout", policy.deferTimeoutMs);
  if (!(policy.backoffFactor >= 1 && policy.backoffFactor <= 100)) {
    refuse("policy.backoff_factor", String(policy.backoffFactor), "allowed is 1 to 100");
  }
  if (policy.heartbeatTimeoutMs < leastHeartbeatMs) {
    refuse(
      "policy.heartbeat_timeout",
      formatDuration(policy.heartbeatTimeoutMs),
      `allowed is at least three heartbeat intervals, ${formatDuration(leastHeartbeatMs)} on this server`,
    );
  }
  if (policy.detachGraceMs > policy.heartbeatTimeoutMs) {
    refuse(
      "policy.detach_grace",
      formatDuration(policy.detachGraceMs),
      `allowed is at most the heartbeat timeout, ${formatDuration(policy.heartbeatTimeoutMs)}`,
    );
  }
}

/** Whether two policies say the same. */
export function samePolicy(a: Policy, b: Policy): boolean {
  return a === b || POLICY_FIELDS.every((field) => a[field] === b[field]);
}

/** Refuses a number of milliseconds that is not whole, not positive, or above ten years. */
export function checkDurationMs(field: string, ms: number): void {
  if (!Number.isSafeInteger(ms) || ms < 1 || ms > LIMITS.durationMs) {
    refuse(field, `${ms} ms`, "allowed are whole milliseconds from 1 to ten years");
  }
}

function checkWhole(field: string, value: number, least: number, most: number): void {
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    refuse(field, String(value), `allowed is a whole number from ${least} to ${most}`);
  }
}

function refuse(field: string, value: string, allowed: string): never {
  throw new TrunklineError("INVALID_FIELD", `${field} is ${value}; ${allowed}`, {
    metadata: { field, value },
  });
}

/**
 * The pause before the try after the `failures`-th failed one: initial × factor^(failures - 1), at most
 * the longest pause, and up to a quarter less by `random` (from 0 to 1), so that calls that failed
 * together do not come back together. Whole milliseconds.
 */
export function backoffMs(policy: Policy, failures: number, random: number): number {
  const grown = policy.backoffInitialMs * policy.backoffFactor ** Math.max(0, failures - 1);
  const capped = Math.min(grown, policy.backoffMaxMs);
  return Math.max(1, Math.round(capped * (1 - random / 4)));
}
