/**
 * Why something was refused or failed: a closed set to switch on. All but the last two come from the
 * server (`Reason` in `problem.proto`).
 */
export const REASONS = [
  /** A field is missing, malformed or outside what it allows. */
  "INVALID_FIELD",
  /** A payload is not valid JSON, or cannot be written as JSON. */
  "INVALID_JSON",
  /** A payload, list or name is larger or deeper than the documented limit. */
  "LIMIT_EXCEEDED",
  /** A stream frame above the frame limit. */
  "FRAME_TOO_LARGE",
  /** A frame that does not fit the state of its stream. */
  "PROTOCOL_VIOLATION",
  /** A value does not satisfy its JSON Schema, or the schema itself is refused. */
  "SCHEMA_VIOLATION",
  /** The run's toolset does not declare the tool. */
  "TOOL_UNKNOWN",
  /** No such run, call, turn or toolset, or one that belongs to somebody else. */
  "NOT_FOUND",
  /** The run has ended; it takes no new calls. */
  "RUN_ENDED",
  /** The key names an earlier call or run with other content. */
  "KEY_REUSED",
  /** The claim was withdrawn, or another one was made after it: the handler's outcome does not count. */
  "CLAIM_LOST",
  /** The attempt is not the call's last one. */
  "STALE_ATTEMPT",
  /** No deferred call is waiting for this token. */
  "TOKEN_INVALID",
  /** The call has ended with another outcome. */
  "CALL_ENDED",
  /** The call is deferred: it is answered by its token or its id. */
  "CALL_DEFERRED",
  /** The call is not deferred, so it has no token. */
  "CALL_NOT_DEFERRED",
  /** Another process holds an open stream under this session id. */
  "SESSION_IN_USE",
  /** The session said hello on another stream. */
  "SUPERSEDED",
  /** No credential, or one that is not known. */
  "UNAUTHENTICATED",
  /** The credential does not allow this. */
  "PERMISSION_DENIED",
  /** Too much is waiting; try again after the delay. */
  "OVERLOADED",
  /** The server cannot be reached, or cannot serve now; try again. */
  "UNAVAILABLE",
  /** The server does not have this yet. */
  "UNIMPLEMENTED",
  /** A fault of the server, or a reason that this SDK does not know. */
  "INTERNAL",
  /** A wait ran out; nothing was decided. The SDK's own. */
  "TIMEOUT",
  /** This client or worker was closed. The SDK's own. */
  "CLOSED",
] as const;

/** One of {@link REASONS}. */
export type Reason = (typeof REASONS)[number];

/** What goes with a {@link TrunklineError}. */
export interface ErrorDetails {
  /** The gRPC status code, such as `NOT_FOUND`; set on what the server said. */
  readonly code?: string | undefined;
  /** Facts for a program: `field`, `limit`, `size`, `max`. Never a secret, never a payload. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** How long to wait before another try, in milliseconds. */
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/**
 * The SDK's error for everything but a tool's failure: bad arguments, refusals of the server, no
 * connection. `message` names the field, the value seen and what is allowed.
 */
export class TrunklineError extends Error {
  override readonly name: string = "TrunklineError";
  /** Why, from a closed set. */
  readonly reason: Reason;
  /** The gRPC status code, such as `NOT_FOUND`; undefined when the SDK itself refused. */
  readonly code: string | undefined;
  /** Facts for a program; empty when there are none. */
  readonly metadata: Readonly<Record<string, string>>;
  /** How long to wait before another try, in milliseconds; undefined: do not try again unchanged. */
  readonly retryAfterMs: number | undefined;

  constructor(reason: Reason, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.reason = reason;
    this.code = details.code;
    this.metadata = details.metadata ?? {};
    this.retryAfterMs = details.retryAfterMs;
  }
}

/** Whether the credential was refused: the one error that trying again cannot cure. */
export function isRefusedCredential(error: TrunklineError): boolean {
  return error.reason === "UNAUTHENTICATED" || error.reason === "PERMISSION_DENIED";
}

/** Whether what failed may be sent again unchanged: a cut, a node that goes away, an overload. */
export function mayPass(error: TrunklineError): boolean {
  return error.reason === "UNAVAILABLE" || error.reason === "OVERLOADED";
}

/** What a failure is; a kind that this SDK does not know reads as `tool`. */
export type FailureKind =
  | "tool"
  | "exception"
  | "worker_lost"
  | "attempt_timeout"
  | "total_timeout"
  | "defer_timeout"
  | "canceled"
  | "invalid_answer"
  | "oversized";

/** Why a call, or one attempt of it, did not give a result. */
export interface Failure {
  readonly kind: FailureKind;
  /** For people, and for the model. */
  readonly message: string;
  /** More, parsed; undefined when there is none. */
  readonly data: unknown;
  /** `data` as JSON text, digit for digit; undefined when there is none. */
  readonly dataJson: string | undefined;
  /** Whether another attempt makes sense. */
  readonly retryable: boolean;
  /** True when the handler may have run to any point: nobody can know. */
  readonly outcomeUnknown: boolean;
}

/** Thrown by `run.call` and by the tools of `run.tools` when the call did not succeed. */
export class ToolError extends Error {
  override readonly name = "ToolError";
  readonly kind: FailureKind;
  /** What the tool added to its message, parsed; undefined when nothing. */
  readonly data: unknown;
  readonly retryable: boolean;
  /** True when the handler may have run to any point: nobody can know. */
  readonly outcomeUnknown: boolean;
  readonly callId: string;

  constructor(callId: string, failure: Failure) {
    super(failure.message);
    this.callId = callId;
    this.kind = failure.kind;
    this.data = failure.data;
    this.retryable = failure.retryable;
    this.outcomeUnknown = failure.outcomeUnknown;
  }
}

/** What goes with a {@link HostToolError}. */
export interface HostToolErrorOptions {
  /** Anything that JSON can carry, at most 64 KiB; the caller finds it in `ToolError.data`. */
  readonly data?: unknown;
  /** Whether another attempt makes sense. Under the policy `retry` it is made. Default false. */
  readonly retryable?: boolean;
  readonly cause?: unknown;
}

/**
 * Thrown by a handler to fail its call on purpose: `message` (at most 8 KiB) and `data` reach the
 * caller as they are, and nothing goes to `onError`.
 */
export class HostToolError extends Error {
  override readonly name = "HostToolError";
  readonly data: unknown;
  readonly retryable: boolean;

  constructor(message: string, options: HostToolErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.data = options.data;
    this.retryable = options.retryable ?? false;
  }
}
