/**
 * Why something was refused: the closed set that clients in any language can switch on. Each has
 * one meaning and one status code (`service/error-map.ts`); the wire's `Reason` enum mirrors it.
 */
export const REASONS = [
  /** A field is missing, malformed or outside what it allows. */
  "INVALID_FIELD",
  /** A payload is not valid JSON text. */
  "INVALID_JSON",
  /** A payload, list or name is larger or deeper than the documented limit. */
  "LIMIT_EXCEEDED",
  /** A stream frame above the frame limit; the frame must not be sent again as it was. */
  "FRAME_TOO_LARGE",
  /** A frame that does not fit the state of its stream (no hello first, an unknown request). */
  "PROTOCOL_VIOLATION",
  /** An input or a declared tool does not satisfy a JSON Schema, or the schema itself is refused. */
  "SCHEMA_VIOLATION",
  /** The run's toolset does not declare the tool. */
  "TOOL_UNKNOWN",
  /** No such run, call, turn or toolset, or one that belongs to somebody else. */
  "NOT_FOUND",
  /** The run has ended; it takes no new calls. */
  "RUN_ENDED",
  /** The key names an earlier call or run with other content. */
  "KEY_REUSED",
  /** The claim was withdrawn, or another one was made after it. */
  "CLAIM_LOST",
  /** The attempt is not the call's last one. */
  "STALE_ATTEMPT",
  /** No deferred call is waiting for this token. */
  "TOKEN_INVALID",
  /** The call has ended with another outcome. */
  "CALL_ENDED",
  /** The call is deferred: it is answered by its token or its id, not under its claim. */
  "CALL_DEFERRED",
  /** The call is not deferred, so it has no token. */
  "CALL_NOT_DEFERRED",
  /** Another process holds an open stream under this session id. */
  "SESSION_IN_USE",
  /** The session said hello elsewhere; this stream is no longer its own. */
  "SUPERSEDED",
  /** No credential, or one that is not known. */
  "UNAUTHENTICATED",
  /** The credential does not allow this. */
  "PERMISSION_DENIED",
  /** Too much is waiting; try again after the delay. */
  "OVERLOADED",
  /** The database cannot be reached, or this node is shutting down; try again, elsewhere. */
  "UNAVAILABLE",
  /** Not built yet. */
  "UNIMPLEMENTED",
  /** A fault of the server; its log says more. */
  "INTERNAL",
] as const;

/** One of {@link REASONS}. */
export type Reason = (typeof REASONS)[number];

/** What goes with a {@link TrunklineError}. */
export interface ErrorDetails {
  /** Machine-readable facts: field, value, limit, size. Never a secret, never a payload. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** How long to wait before another try, in milliseconds. */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/**
 * The one error type of the server. `message` names the field, the value seen and what is allowed;
 * it is shown to callers as it stands.
 */
export class TrunklineError extends Error {
  override readonly name = "TrunklineError";
  readonly reason: Reason;
  readonly metadata: Readonly<Record<string, string>>;
  readonly retryAfterMs: number | undefined;

  constructor(reason: Reason, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.reason = reason;
    this.metadata = details.metadata ?? {};
    this.retryAfterMs = details.retryAfterMs;
  }
}
