import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";

/** The error for a field that is outside what it allows. `value` is shown, so it must be no secret. */
export function invalidField(field: string, value: string | number, allowed: string): TrunklineError {
  const shown = typeof value === "number" ? String(value) : quoted(value);
  return new TrunklineError("INVALID_FIELD", `${field} is ${shown}; allowed ${allowed}`, {
    metadata: { field, value: shown },
  });
}

/** The error for a field that has to be set. */
export function missingField(field: string, allowed: string): TrunklineError {
  return new TrunklineError("INVALID_FIELD", `${field} is missing; allowed ${allowed}`, {
    metadata: { field },
  });
}

/**
 * Refuses a list that is empty or has more than `max` items.
 *
 * @throws TrunklineError INVALID_FIELD, or LIMIT_EXCEEDED
 */
export function checkCount(count: number, field: string, max: number): void {
  if (count >= 1 && count <= max) return;
  if (count === 0) {
    throw new TrunklineError("INVALID_FIELD", `${field} is empty; allowed are 1 to ${String(max)} items`, {
      metadata: { field },
    });
  }
  throw new TrunklineError(
    "LIMIT_EXCEEDED",
    `${field} has ${String(count)} items; allowed are at most ${String(max)}`,
    { metadata: { field, limit: "items", size: String(count), max: String(max) } },
  );
}

/**
 * Runs a check that names its fields by themselves, and puts `prefix` before the field of what it throws:
 * `policy.mode` becomes `calls[3].policy.mode`.
 */
export function under<T>(prefix: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof TrunklineError)) throw error;
    const field = error.metadata["field"];
    throw new TrunklineError(error.reason, `${prefix}.${error.message}`, {
      metadata: field === undefined ? error.metadata : { ...error.metadata, field: `${prefix}.${field}` },
    });
  }
}
