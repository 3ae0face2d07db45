import { onlyFields, refuseArgument, whole } from "./argument.js";
import { formatDuration, type Duration } from "./duration.js";
import { LIMITS } from "./limits.js";
import { MAX_ATTEMPTS, type Policy } from "./policy.js";

/** How a tool of an {@link Agent} is retried: as JSON carries it, with seconds as numbers, fractions included. */
export interface RetryPolicy {
  /** Claims that may have started, 1 to 1,000. Default 5. */
  readonly max_attempts?: number;
  /** How long one attempt may take, left open or not. When it is over the call is tried again, or fails. Default: no limit. */
  readonly attempt_timeout_secs?: number;
  /** How long the call may take. When it is over the call fails. Default: no limit. */
  readonly total_timeout_secs?: number;
}

const FIELDS: Record<keyof RetryPolicy, true> = {
  max_attempts: true,
  attempt_timeout_secs: true,
  total_timeout_secs: true,
};

/**
 * The policy that a {@link RetryPolicy} means, for a tool's declaration or for `run.open`.
 *
 * @param field what it is called in messages
 * @throws TrunklineError INVALID_FIELD for a field that does not exist, and a number outside what it allows
 */
export function retryPolicy(retry: RetryPolicy, field = "retry"): Policy {
  onlyFields(retry, FIELDS, field);
  const { max_attempts: maxAttempts, attempt_timeout_secs: attempt, total_timeout_secs: total } = retry;
  return {
    ...(maxAttempts !== undefined && {
      maxAttempts: whole(maxAttempts, `${field}.max_attempts`, 1, MAX_ATTEMPTS),
    }),
    ...(attempt !== undefined && { attemptTimeout: seconds(attempt, `${field}.attempt_timeout_secs`) }),
    ...(total !== undefined && { totalTimeout: seconds(total, `${field}.total_timeout_secs`) }),
  };
}

function seconds(value: number, field: string): Duration {
  const given: unknown = value;
  // 16.1 s are 16,100 ms, though their product in binary is a little more.
  const ms = typeof given === "number" ? Math.ceil(Number((given * 1000).toFixed(6))) : NaN;
  if (ms >= 1 && ms <= LIMITS.durationMs) return formatDuration(ms);
  const seen = typeof given === "number" ? String(given) : `${typeof given} is not a number`;
  throw refuseArgument(field, seen, `allowed are seconds, above 0 and at most ${LIMITS.durationMs / 1000}`);
}
