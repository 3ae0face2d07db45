import { TrunklineError } from "./error.js";
import { byteLength, checkBytes, quoted } from "./json-text.js";
import { LIMITS } from "./limits.js";

const MAX_INT32 = 2 ** 31 - 1;

const TOOL_NAME = /^[A-Za-z0-9_.-]+$/;
/** What nearly every name is made of, told without counting bytes. */
const PLAIN = /^[\x20-\x7e]+$/;
const CONTROL = /\p{Cc}/u;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const UUID_LENGTH = 36;
/** Run id, seq. */
const CALL_ID = /^([0-9a-f-]{36})\/([1-9][0-9]{0,9})$/;
/** Call id, attempt, and 256 bits as 43 characters of base64url. */
const TOKEN = /^([0-9a-f-]{36}\/[1-9][0-9]{0,9})\.([1-9][0-9]{0,9})\.([A-Za-z0-9_-]{43})$/;

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[\x21-\x7e]*)?$/;
const ZEROS = /^0+$/;

function invalid(field: string, value: string, why: string, allowed: string): TrunklineError {
  return new TrunklineError("INVALID_FIELD", `${field}: ${quoted(value)} ${why}; allowed are ${allowed}`, {
    metadata: { field },
  });
}

function tooLong(field: string, value: string, maxBytes: number): TrunklineError {
  const size = byteLength(value);
  return new TrunklineError(
    "LIMIT_EXCEEDED",
    `${field}: ${quoted(value)} has ${String(size)} bytes; ` +
      `allowed are at most ${String(maxBytes)} bytes of UTF-8`,
    { metadata: { field, limit: "bytes", size: String(size), max: String(maxBytes) } },
  );
}

/**
 * Checks the name of a tool: 1 to 128 characters of `A-Z a-z 0-9 _ . -`.
 *
 * @throws TrunklineError INVALID_FIELD, or LIMIT_EXCEEDED when it is too long
 */
export function checkToolName(value: string, field: string): void {
  if (value.length > LIMITS.toolNameBytes) throw tooLong(field, value, LIMITS.toolNameBytes);
  if (TOOL_NAME.test(value)) return;
  const why = value === "" ? "is empty" : "is not a tool name";
  const allowed = `1 to ${String(LIMITS.toolNameBytes)} characters of A-Z a-z 0-9 _ . -`;
  throw invalid(field, value, why, allowed);
}

/** Control characters and lone surrogates are refused, and more than `maxBytes`. */
function checkText(value: string, field: string, maxBytes: number): void {
  if (value.length <= maxBytes && PLAIN.test(value)) return;
  const allowed = `at most ${String(maxBytes)} bytes of UTF-8 without control characters`;
  if (!value.isWellFormed()) throw invalid(field, value, "has half of a surrogate pair", allowed);
  if (value.length > maxBytes || byteLength(value) > maxBytes) {
    throw tooLong(field, value, maxBytes);
  }
  if (CONTROL.test(value)) throw invalid(field, value, "has a control character", allowed);
}

/**
 * Checks a name that somebody chose: a namespace, a key, a session id, a worker's name. 1 to 256
 * bytes of UTF-8 without control characters.
 *
 * @throws TrunklineError INVALID_FIELD, or LIMIT_EXCEEDED when it is too long
 */
export function checkName(value: string, field: string): void {
  if (value === "") {
    throw invalid(field, value, "is empty", `1 to ${String(LIMITS.nameBytes)} bytes of UTF-8`);
  }
  checkText(value, field, LIMITS.nameBytes);
}

/**
 * Checks labels: at most 32, with names of 1 to 64 bytes and values of at most 256 bytes, empty
 * ones too. Only the record's own names count; `__proto__` is a name like any other.
 *
 * @throws TrunklineError INVALID_FIELD, or LIMIT_EXCEEDED for their number or a length
 */
export function checkLabels(labels: Readonly<Record<string, string>>, field: string): void {
  const entries = Object.entries(labels);
  if (entries.length > LIMITS.labels) {
    throw new TrunklineError(
      "LIMIT_EXCEEDED",
      `${field} has ${String(entries.length)} labels; allowed are at most ${String(LIMITS.labels)}`,
      {
        metadata: {
          field,
          limit: "labels",
          size: String(entries.length),
          max: String(LIMITS.labels),
        },
      },
    );
  }
  for (const [name, value] of entries) {
    if (name === "") {
      const allowed = `1 to ${String(LIMITS.labelNameBytes)} bytes of UTF-8`;
      throw invalid(`${field} name`, name, "is empty", allowed);
    }
    checkText(name, `${field} name`, LIMITS.labelNameBytes);
    if (value !== "") checkText(value, `${field}[${quoted(name)}]`, LIMITS.labelValueBytes);
  }
}

/**
 * Checks a caller's W3C trace context: empty for none, else `version-trace-parent-flags` in lower
 * case with neither id all zero. A later version than 00 may carry more after the flags.
 *
 * @see https://www.w3.org/TR/trace-context/#traceparent-header
 * @throws TrunklineError INVALID_FIELD, or LIMIT_EXCEEDED when it is longer than a name
 */
export function checkTraceparent(value: string, field = "traceparent"): void {
  if (value === "") return;
  if (value.length > LIMITS.nameBytes) throw tooLong(field, value, LIMITS.nameBytes);
  const [, version, traceId = "", parentId = "", more] = TRACEPARENT.exec(value) ?? [];
  const known = version !== undefined && version !== "ff" && (version !== "00" || more === undefined);
  if (known && !ZEROS.test(traceId) && !ZEROS.test(parentId)) return;
  const allowed = "an empty text or a W3C traceparent such as 00-{32 hex}-{16 hex}-01";
  throw invalid(field, value, "is not a traceparent", allowed);
}

/**
 * Whether a text is a UUID in its canonical form: lower case, 8-4-4-4-12. What is not cannot be the
 * id of a run, so callers answer NOT_FOUND, as for any id that does not exist.
 */
export function isUuid(text: string): boolean {
  return text.length === UUID_LENGTH && UUID.test(text);
}

/** The parts of a call's id. */
export interface CallIdParts {
  readonly runId: string;
  /** The call's number in its run, from 1. */
  readonly seq: number;
}

/** Reads `{run id}/{seq}`; `undefined` for anything else, which no call can have. */
export function parseCallId(text: string): CallIdParts | undefined {
  const [, runId, digits] = CALL_ID.exec(text) ?? [];
  if (runId === undefined || !isUuid(runId)) return undefined;
  const seq = Number(digits);
  return seq <= MAX_INT32 ? { runId, seq } : undefined;
}

/** A call's id: `{run id}/{seq}`, which a call has at hand. It names the call inside a process too. */
export function formatCallId(parts: CallIdParts & { readonly id?: string }): string {
  return parts.id ?? `${parts.runId}/${String(parts.seq)}`;
}

/** The parts of a completion token. */
export interface TokenParts extends CallIdParts {
  readonly attempt: number;
  /** 43 characters of base64url; only its hash is ever stored. */
  readonly secret: string;
}

/**
 * Reads `{call id}.{attempt}.{secret}`; `undefined` for anything else, which callers answer like a
 * token that matches nothing.
 */
export function parseToken(text: string): TokenParts | undefined {
  const [, callId, digits, secret] = TOKEN.exec(text) ?? [];
  if (callId === undefined || secret === undefined) return undefined;
  const call = parseCallId(callId);
  const attempt = Number(digits);
  return call !== undefined && attempt <= MAX_INT32 ? { ...call, attempt, secret } : undefined;
}

/** Writes a token: `{call id}.{attempt}.{secret}`. */
export function formatToken(parts: TokenParts): string {
  return `${formatCallId(parts)}.${String(parts.attempt)}.${parts.secret}`;
}

/**
 * Checks free text, such as a failure's message: at most `maxBytes`, and without half of a
 * surrogate pair, which UTF-8 would silently turn into U+FFFD. NUL and other control characters are
 * allowed, because such text rests inside JSON.
 *
 * @throws TrunklineError INVALID_FIELD, or LIMIT_EXCEEDED when it is too long
 */
export function checkWellFormed(text: string, field: string, maxBytes: number): void {
  if (!text.isWellFormed()) {
    throw invalid(field, text, "has half of a surrogate pair", "whole Unicode characters");
  }
  checkBytes(text, field, maxBytes);
}
