import type { Duration } from "@bufbuild/protobuf/wkt";
import { PolicyMode as WirePolicyMode, type Policy as WirePolicy } from "@trunkline/proto/model";
import type { Policy, PolicyPatch } from "../core/policy.js";
import { fromPolicyMode, toPolicyMode } from "./convert-enum.js";
import { fromDuration, toDuration } from "./convert-time.js";

const NO_PATCH: PolicyPatch = {};

function msOf(duration: Duration | undefined, field: string): number | undefined {
  return duration === undefined ? undefined : fromDuration(duration, field);
}

/**
 * The fields that a policy sets. Each duration is checked; what the fields allow together is for
 * `resolvePolicy`.
 *
 * @throws TrunklineError INVALID_FIELD naming the field under `field`.
 */
export function toPolicyPatch(message: WirePolicy | undefined, field: string): PolicyPatch {
  if (message === undefined) return NO_PATCH;
  return {
    mode: fromPolicyMode(message.mode, `${field}.mode`) ?? undefined,
    maxAttempts: message.maxAttempts,
    backoffInitialMs: msOf(message.backoffInitial, `${field}.backoff_initial`),
    backoffFactor: message.backoffFactor,
    backoffMaxMs: msOf(message.backoffMax, `${field}.backoff_max`),
    heartbeatTimeoutMs: msOf(message.heartbeatTimeout, `${field}.heartbeat_timeout`),
    detachGraceMs: msOf(message.detachGrace, `${field}.detach_grace`),
    attemptTimeoutMs: msOf(message.attemptTimeout, `${field}.attempt_timeout`),
    totalTimeoutMs: msOf(message.totalTimeout, `${field}.total_timeout`),
    deferTimeoutMs: msOf(message.deferTimeout, `${field}.defer_timeout`),
  };
}

/** A policy, or the fields of one that a tool sets; what is null or missing is not set. */
export function toPolicyMessage(policy: Policy | PolicyPatch): WirePolicy {
  const message: WirePolicy = {
    $typeName: "trunkline.v1.Policy",
    mode: policy.mode === undefined ? WirePolicyMode.UNSPECIFIED : toPolicyMode(policy.mode),
  };
  if (policy.maxAttempts !== undefined) message.maxAttempts = policy.maxAttempts;
  if (policy.backoffFactor !== undefined) message.backoffFactor = policy.backoffFactor;
  message.backoffInitial = durationOf(policy.backoffInitialMs);
  message.backoffMax = durationOf(policy.backoffMaxMs);
  message.heartbeatTimeout = durationOf(policy.heartbeatTimeoutMs);
  message.detachGrace = durationOf(policy.detachGraceMs);
  message.attemptTimeout = durationOf(policy.attemptTimeoutMs);
  message.totalTimeout = durationOf(policy.totalTimeoutMs);
  message.deferTimeout = durationOf(policy.deferTimeoutMs);
  return message;
}

function durationOf(ms: number | null | undefined): Duration | undefined {
  return ms === null || ms === undefined ? undefined : toDuration(ms);
}
