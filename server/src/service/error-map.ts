import { Code, ConnectError } from "@connectrpc/connect";
import { ProblemSchema, Reason as WireReason, type Problem } from "@trunkline/proto/problem";
import { TrunklineError, type Reason } from "../core/error.js";
import { classifyError } from "../store/database.js";
import { cutText } from "./convert-text.js";
import { toDuration } from "./convert-time.js";

interface Mapping {
  readonly code: Code;
  readonly reason: WireReason;
}

/**
 * The one table of what each reason is on the wire. `LIMIT_EXCEEDED` is INVALID_ARGUMENT whatever the limit,
 * because such a request can never succeed and must not be tried again; RESOURCE_EXHAUSTED is left for a
 * frame that was too large to be read and for too much load. A token that matches nothing is NOT_FOUND:
 * clients try UNKNOWN again.
 */
const MAPPINGS: Readonly<Record<Reason, Mapping>> = {
  INVALID_FIELD: { code: Code.InvalidArgument, reason: WireReason.INVALID_FIELD },
  INVALID_JSON: { code: Code.InvalidArgument, reason: WireReason.INVALID_JSON },
  LIMIT_EXCEEDED: { code: Code.InvalidArgument, reason: WireReason.LIMIT_EXCEEDED },
  FRAME_TOO_LARGE: { code: Code.ResourceExhausted, reason: WireReason.FRAME_TOO_LARGE },
  PROTOCOL_VIOLATION: { code: Code.FailedPrecondition, reason: WireReason.PROTOCOL_VIOLATION },
  SCHEMA_VIOLATION: { code: Code.InvalidArgument, reason: WireReason.SCHEMA_VIOLATION },
  TOOL_UNKNOWN: { code: Code.InvalidArgument, reason: WireReason.TOOL_UNKNOWN },
  NOT_FOUND: { code: Code.NotFound, reason: WireReason.NOT_FOUND },
  RUN_ENDED: { code: Code.FailedPrecondition, reason: WireReason.RUN_ENDED },
  KEY_REUSED: { code: Code.AlreadyExists, reason: WireReason.KEY_REUSED },
  CLAIM_LOST: { code: Code.Aborted, reason: WireReason.CLAIM_LOST },
  STALE_ATTEMPT: { code: Code.FailedPrecondition, reason: WireReason.STALE_ATTEMPT },
  TOKEN_INVALID: { code: Code.NotFound, reason: WireReason.TOKEN_INVALID },
  CALL_ENDED: { code: Code.FailedPrecondition, reason: WireReason.CALL_ENDED },
  CALL_DEFERRED: { code: Code.FailedPrecondition, reason: WireReason.CALL_DEFERRED },
  CALL_NOT_DEFERRED: { code: Code.FailedPrecondition, reason: WireReason.CALL_NOT_DEFERRED },
  SESSION_IN_USE: { code: Code.FailedPrecondition, reason: WireReason.SESSION_IN_USE },
  SUPERSEDED: { code: Code.Aborted, reason: WireReason.SUPERSEDED },
  UNAUTHENTICATED: { code: Code.Unauthenticated, reason: WireReason.UNAUTHENTICATED },
  PERMISSION_DENIED: { code: Code.PermissionDenied, reason: WireReason.PERMISSION_DENIED },
  OVERLOADED: { code: Code.ResourceExhausted, reason: WireReason.OVERLOADED },
  UNAVAILABLE: { code: Code.Unavailable, reason: WireReason.UNAVAILABLE },
  UNIMPLEMENTED: { code: Code.Unimplemented, reason: WireReason.UNIMPLEMENTED },
  INTERNAL: { code: Code.Internal, reason: WireReason.INTERNAL },
};

/** The reason of a transport's own error, which carries none. */
const REASON_OF_CODE: Readonly<Partial<Record<Code, Reason>>> = {
  [Code.InvalidArgument]: "INVALID_FIELD",
  [Code.ResourceExhausted]: "FRAME_TOO_LARGE",
  [Code.Unimplemented]: "UNIMPLEMENTED",
  [Code.Unavailable]: "UNAVAILABLE",
};

/** What connect-node calls INTERNAL, although it is the client who sent what cannot be read. */
const UNREADABLE = /^(?:parse binary: |decompression failed$)/;

/** What the contract allows a problem's message. */
const MESSAGE_BYTES = 1024;
const DATABASE_RETRY_MS = 1_000;

/**
 * What a caller is told of an error. A fault of the server becomes INTERNAL and says nothing of itself: see
 * {@link isFault} for who should hear of it instead.
 */
export function toTrunklineError(error: unknown): TrunklineError {
  const kind = classifyError(error);
  if (error instanceof TrunklineError && kind === "fatal") return error;
  if (kind === "lost" || kind === "retry") {
    return new TrunklineError("UNAVAILABLE", "the database cannot be reached; try again", {
      retryAfterMs: DATABASE_RETRY_MS,
      cause: error,
    });
  }
  return new TrunklineError("INTERNAL", "the server failed; its log says more", { cause: error });
}

/** Whether an error is the server's own fault, or its database's, so that its log has to say it. */
export function isFault(error: unknown): boolean {
  if (error instanceof ConnectError || isAbort(error)) return false;
  return toTrunklineError(error).reason === "INTERNAL" || isOutOfResources(error);
}

/**
 * Whether the database is there and has run out of disk, memory or connections (class 53): callers try again, the
 * renewals of the node may well go on, and nobody else would hear of it.
 */
function isOutOfResources(error: unknown): boolean {
  for (let each: unknown = error; each instanceof Error; each = each.cause) {
    if ("code" in each && typeof each.code === "string" && /^53...$/.test(each.code)) return true;
  }
  return false;
}

/** An error as an item of a frame or the detail of an RPC's error has it. */
export function toProblem(error: unknown): Problem {
  if (error instanceof ConnectError) {
    const reason = REASON_OF_CODE[error.code];
    if (reason !== undefined) return { ...problemOf(reason, error.rawMessage), code: error.code };
  }
  const { reason, message, metadata, retryAfterMs } = toTrunklineError(error);
  return {
    ...problemOf(reason, message),
    metadata,
    ...(retryAfterMs === undefined ? {} : { retryAfter: toDuration(retryAfterMs) }),
  };
}

function problemOf(reason: Reason, message: string): Problem {
  const mapping = MAPPINGS[reason];
  return {
    $typeName: "trunkline.v1.Problem",
    code: mapping.code,
    reason: mapping.reason,
    message: cutText(message, MESSAGE_BYTES),
    metadata: {},
  };
}

/** An error as an RPC ends with it: the code that fits, and a `Problem` as its detail. */
export function toConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) {
    const told = error.details.length > 0 ? error : inOurWords(error);
    // What the transport itself found (a message too large, one that cannot be parsed) lacks its reason only.
    const known = told.details.length > 0 || REASON_OF_CODE[told.code] === undefined;
    if (!known) told.details.push({ desc: ProblemSchema, value: toProblem(told) });
    return told;
  }
  if (isAbort(error))
    return new ConnectError("the client went away", Code.Canceled, undefined, undefined, error);
  const value = toProblem(error);
  const { code } = MAPPINGS[toTrunklineError(error).reason];
  return new ConnectError(value.message, code, undefined, [{ desc: ProblemSchema, value }], error);
}

function inOurWords(error: ConnectError): ConnectError {
  const { rawMessage, metadata } = error;
  const isUnreadable = error.code === Code.Internal && UNREADABLE.test(rawMessage);
  const code = isUnreadable ? Code.InvalidArgument : error.code;
  // gRPC's status cannot carry half a surrogate pair, which messages quote.
  if (code === error.code && rawMessage.isWellFormed()) return error;
  return new ConnectError(rawMessage.toWellFormed(), code, metadata, undefined, error);
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && (error.name === "AbortError" || error.name === "TimeoutError");
}

/** What was thrown, as something that can be thrown again; errors stay what they are. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : toTrunklineError(thrown);
}
