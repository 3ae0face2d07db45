import { TrunklineError } from "../core/error.js";

const RETRY_MS = 500;

/**
 * The refusal of what would have to wait behind too much else. Whoever is refused comes back after half a second
 * to one and a half, not all in one moment.
 */
export function overloaded(what = "too many items wait for the database"): TrunklineError {
  return new TrunklineError("OVERLOADED", `${what}; try again after the delay`, {
    retryAfterMs: Math.round(RETRY_MS * (1 + 2 * Math.random())),
  });
}
