/** What a failure is; mirrors the wire's `FailureKind`. */
export const FAILURE_KINDS = [
  "tool",
  "exception",
  "worker_lost",
  "attempt_timeout",
  "total_timeout",
  "defer_timeout",
  "canceled",
  "invalid_answer",
  "oversized",
] as const;

/** One of {@link FAILURE_KINDS}. */
export type FailureKind = (typeof FAILURE_KINDS)[number];

/** Why a call, or one attempt of it, did not give a result. */
export interface Failure {
  readonly kind: FailureKind;
  readonly message: string;
  /** JSON text as the tool wrote it, or null. */
  readonly dataJson: string | null;
  readonly retryable: boolean;
  /** True when the handler may have run to any point and nobody can know. */
  readonly outcomeUnknown: boolean;
}

/** What ends a call or an attempt from inside or outside its claim: a result, as JSON text, or a failure. */
export type Answer =
  | { readonly type: "result"; readonly resultJson: string }
  | { readonly type: "failure"; readonly failure: Failure };

/** The kinds that leave the outcome unknown once the handler may have started. */
const UNKNOWN_OUTCOME: ReadonlySet<FailureKind> = new Set([
  "worker_lost",
  "attempt_timeout",
  "total_timeout",
  "canceled",
]);

/** A failure that the server itself states; `spent` tells whether a handler may have started. */
export function serverFailure(
  kind: FailureKind,
  message: string,
  spent: number,
  retryable: boolean,
): Failure {
  return {
    kind,
    message,
    dataJson: null,
    retryable,
    outcomeUnknown: spent > 0 && UNKNOWN_OUTCOME.has(kind),
  };
}

/** Whether two failures say the same, so that one is a repeat of the other. */
export function sameFailure(a: Failure, b: Failure): boolean {
  return (
    a.kind === b.kind && a.message === b.message && a.dataJson === b.dataJson && a.retryable === b.retryable
  );
}
