import { create } from "@bufbuild/protobuf";
import { FailureKind, FailureSchema, type Failure } from "@trunkline/proto/model";
import { HostToolError, TrunklineError } from "./errors.js";
import { isTooLarge, nameThrown, toJson } from "./json.js";
import { LIMITS } from "./limits.js";

const ELLIPSIS = "…";

/**
 * A text that every store takes: halves of surrogate pairs and NUL become U+FFFD, and it is cut between
 * characters to at most `maxBytes` of UTF-8, the ellipsis included.
 */
export function storableText(text: string, maxBytes: number): string {
  const clean = text.toWellFormed().replaceAll("\0", "\ufffd");
  // A UTF-16 unit takes at most three bytes, so most texts need no counting.
  if (clean.length * 3 <= maxBytes || Buffer.byteLength(clean) <= maxBytes) return clean;
  const bytes = Buffer.from(clean).subarray(0, maxBytes - Buffer.byteLength(ELLIPSIS));
  let end = bytes.length;
  // Step back over the continuation bytes of a character that was cut, and over its first byte.
  const last = bytes.findLastIndex((byte) => (byte & 0xc0) !== 0x80);
  const lead = bytes[last] ?? 0;
  const width = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (last + width > end) end = last;
  return bytes.toString("utf8", 0, end) + ELLIPSIS;
}

/** Failure data as JSON text; what cannot be sent is dropped, and `note` says so in the message. */
export function dataText(data: unknown): { json: string; note: string } {
  if (data === undefined) return { json: "", note: "" };
  try {
    return { json: toJson(data, "data", LIMITS.failureDataBytes), note: "" };
  } catch (error) {
    const why = error instanceof TrunklineError ? error.message : nameThrown(error);
    return { json: "", note: ` (its data was dropped: ${why})` };
  }
}

/** A failure of the wire, with its message cut and its data checked. */
export function wireFailure(
  kind: FailureKind,
  message: string,
  options: { readonly data?: unknown; readonly retryable?: boolean } = {},
): Failure {
  const { json, note } = dataText(options.data);
  const noteText = storableText(note, LIMITS.failureMessageBytes / 2);
  const room = LIMITS.failureMessageBytes - Buffer.byteLength(noteText);
  return create(FailureSchema, {
    kind,
    message: storableText(message, room) + noteText,
    dataJson: json,
    retryable: options.retryable ?? false,
  });
}

/** How a handler's throw ends its call, and whether it is news to `onError`. */
export interface ThrownFailure {
  readonly failure: Failure;
  /** False for what a handler says on purpose. */
  readonly unexpected: boolean;
}

/** What was decided about a call is no answer to it: the call ends as `invalid_answer`. */
export class InvalidAnswerError extends TrunklineError {
  constructor(message: string, cause?: unknown) {
    super("INVALID_FIELD", message, { cause });
  }
}

/** The failure that a throw of a handler means, whatever was thrown: it never throws itself. */
export function failureOfThrown(thrown: unknown): ThrownFailure {
  const said = readKnownError(thrown);
  if (said !== undefined) return said;
  return { failure: wireFailure(FailureKind.EXCEPTION, nameThrown(thrown)), unexpected: true };
}

/** The failure that a result which cannot be sent means. */
export function failureOfResult(error: unknown): Failure {
  const message = error instanceof TrunklineError ? error.message : nameThrown(error);
  return wireFailure(isTooLarge(error) ? FailureKind.OVERSIZED : FailureKind.INVALID_ANSWER, message);
}

/** A subclass may have getters that throw; then it is an exception like any other. */
function readKnownError(thrown: unknown): ThrownFailure | undefined {
  try {
    if (thrown instanceof InvalidAnswerError) return { failure: failureOfResult(thrown), unexpected: true };
    if (!(thrown instanceof HostToolError)) return undefined;
    const { message, data, retryable } = thrown;
    return { failure: wireFailure(FailureKind.TOOL, message, { data, retryable }), unexpected: false };
  } catch {
    return undefined;
  }
}
