import { HEARTBEAT_INTERVAL } from "../config.js";
import { parseDuration } from "../core/duration.js";
import { TrunklineError } from "../core/error.js";

/**
 * Refuses fields that do not exist: a misspelt option must not be silently none.
 *
 * @throws TrunklineError INVALID_FIELD
 */
export function onlyOptions(given: object, allowed: Readonly<Record<string, true>>): void {
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(allowed, name))
      throw refuse("options", JSON.stringify(name), `allowed are ${Object.keys(allowed).join(", ")}`);
  }
}

/**
 * A duration in milliseconds. Tests in JavaScript may pass anything, and a bare number has no unit.
 *
 * @throws TrunklineError INVALID_FIELD naming `field`
 */
export function durationMs(given: unknown, field: string): number {
  if (typeof given === "string") return parseDuration(given, field);
  const seen = typeof given === "number" ? `${given} has no unit` : `${typeof given} is not a duration`;
  throw refuse(field, seen, 'allowed are texts such as "3d", "1h30m" or "250ms"');
}

/**
 * How often workers send heartbeats, in milliseconds, as `serve --heartbeat-interval` has it.
 *
 * @throws TrunklineError INVALID_FIELD
 */
export function heartbeatMs(given: unknown): number {
  const ms = durationMs(given, "heartbeatInterval");
  const { leastMs, mostMs, allowed } = HEARTBEAT_INTERVAL;
  if (ms >= leastMs && ms <= mostMs) return ms;
  throw refuse("heartbeatInterval", JSON.stringify(given), allowed);
}

function refuse(field: string, seen: string, allowed: string): TrunklineError {
  return new TrunklineError("INVALID_FIELD", `${field}: ${seen}; ${allowed}`, { metadata: { field } });
}
