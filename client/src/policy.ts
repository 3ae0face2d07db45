import { create } from "@bufbuild/protobuf";
import { durationFromMs, durationMs, type Duration as WireDuration } from "@bufbuild/protobuf/wkt";
import { PolicyMode as WireMode, PolicySchema, type Policy as WirePolicy } from "@trunkline/proto/model";
import { onlyFields, oneOf, refuseArgument, whole } from "./argument.js";
import { formatDuration, parseDuration, type Duration } from "./duration.js";
import { translate } from "./problem.js";

/** Whether another attempt is made when one did not end well. */
export type PolicyMode = "retry" | "at_most_once";

/**
 * How a call is retried and how long things may take. A call's own policy replaces its tool's, field by
 * field; what neither sets has its default.
 */
export interface Policy {
  /** `at_most_once`: the handler is started at most once. Default `retry`. */
  readonly mode?: PolicyMode;
  /** Claims that may have started, 1 to 1,000. Default 5 (1 under `at_most_once`). */
  readonly maxAttempts?: number;
  /** The pauses between attempts: the first (default 1 s), times a factor (2), up to `max` (60 s). */
  readonly backoff?: { readonly initial?: Duration; readonly factor?: number; readonly max?: Duration };
  /** How long a claim lives without a sign of its worker. Default 60 s. */
  readonly heartbeatTimeout?: Duration;
  /** How long a `retry` claim outlives a stream that its worker closed without drain. Default 10 s. */
  readonly detachGrace?: Duration;
  /** How long one attempt may take. Default: no limit. */
  readonly attemptTimeout?: Duration;
  /** How long the call may take. Default: no limit. */
  readonly totalTimeout?: Duration;
  /** How long a deferred call may wait for its answer. Default: until its run ends. */
  readonly deferTimeout?: Duration;
}

const MODE_OF: Record<WireMode, PolicyMode> = {
  [WireMode.UNSPECIFIED]: "retry",
  [WireMode.RETRY]: "retry",
  [WireMode.AT_MOST_ONCE]: "at_most_once",
};

const WIRE_MODE_OF: Record<PolicyMode, WireMode> = {
  retry: WireMode.RETRY,
  at_most_once: WireMode.AT_MOST_ONCE,
};

/** Attempts of one call. */
export const MAX_ATTEMPTS = 1_000;

const FIELDS: Record<keyof Policy, true> = {
  mode: true,
  maxAttempts: true,
  backoff: true,
  heartbeatTimeout: true,
  detachGrace: true,
  attemptTimeout: true,
  totalTimeout: true,
  deferTimeout: true,
};

const BACKOFF_FIELDS: Record<keyof NonNullable<Policy["backoff"]>, true> = {
  initial: true,
  factor: true,
  max: true,
};

function wireDuration(duration: Duration | undefined, field: string): WireDuration | undefined {
  return duration === undefined ? undefined : durationFromMs(parseDuration(duration, field));
}

function wireFactor(factor: number | undefined, field: string): number | undefined {
  // What comes from JavaScript may be anything.
  const given: unknown = factor;
  if (given === undefined || Number.isFinite(given)) return factor;
  throw refuseArgument(field, String(factor), "allowed are numbers from 1 to 100");
}

/**
 * A policy as the wire has it.
 *
 * @param field what it is called in messages
 * @throws TrunklineError INVALID_FIELD for a duration outside the grammar, a number that is none, and a field or
 *   mode that does not exist: a misspelt limit must not be silently none
 */
export function policyToWire(policy: Policy, field = "policy"): WirePolicy {
  onlyFields(policy, FIELDS, field);
  const { mode, maxAttempts, backoff } = policy;
  if (backoff !== undefined) onlyFields(backoff, BACKOFF_FIELDS, `${field}.backoff`);
  const wire = create(PolicySchema);
  if (mode !== undefined) wire.mode = oneOf(WIRE_MODE_OF, mode, `${field}.mode`);
  if (maxAttempts !== undefined)
    wire.maxAttempts = whole(maxAttempts, `${field}.maxAttempts`, 1, MAX_ATTEMPTS);
  wire.backoffFactor = wireFactor(backoff?.factor, `${field}.backoff.factor`);
  wire.backoffInitial = wireDuration(backoff?.initial, `${field}.backoff.initial`);
  wire.backoffMax = wireDuration(backoff?.max, `${field}.backoff.max`);
  wire.heartbeatTimeout = wireDuration(policy.heartbeatTimeout, `${field}.heartbeatTimeout`);
  wire.detachGrace = wireDuration(policy.detachGrace, `${field}.detachGrace`);
  wire.attemptTimeout = wireDuration(policy.attemptTimeout, `${field}.attemptTimeout`);
  wire.totalTimeout = wireDuration(policy.totalTimeout, `${field}.totalTimeout`);
  wire.deferTimeout = wireDuration(policy.deferTimeout, `${field}.deferTimeout`);
  return wire;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** A policy of the wire; empty when there is none. */
export function policyFromWire(wire: WirePolicy | undefined): Policy {
  if (wire === undefined) return {};
  const policy: Mutable<Policy> = {};
  // A tool's own policy says only what it was given, so that it can be put again as it was read.
  if (wire.mode !== WireMode.UNSPECIFIED) policy.mode = translate(MODE_OF, wire.mode, "retry");
  const backoff: Mutable<NonNullable<Policy["backoff"]>> = {};
  if (wire.maxAttempts !== undefined) policy.maxAttempts = wire.maxAttempts;
  if (wire.backoffInitial !== undefined) backoff.initial = formatDuration(durationMs(wire.backoffInitial));
  if (wire.backoffFactor !== undefined) backoff.factor = wire.backoffFactor;
  if (wire.backoffMax !== undefined) backoff.max = formatDuration(durationMs(wire.backoffMax));
  if (Object.keys(backoff).length > 0) policy.backoff = backoff;
  for (const field of TIMEOUTS) {
    const limit = wire[field];
    if (limit !== undefined) policy[field] = formatDuration(durationMs(limit));
  }
  return policy;
}

const TIMEOUTS = [
  "heartbeatTimeout",
  "detachGrace",
  "attemptTimeout",
  "totalTimeout",
  "deferTimeout",
] as const satisfies readonly (keyof Policy)[];
