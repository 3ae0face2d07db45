import { TrunklineError } from "./error.js";
import { isJson } from "./json-check.js";
import { findJsonFault, findLoneSurrogate, type JsonFault } from "./json-fault.js";
import { LIMITS } from "./limits.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** How much of a payload an error may repeat. */
const EXCERPT_CHARACTERS = 20;

/** Characters that a terminal or a log could act on, or that a reader could not see. */
const UNSEEN = /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** The size of a text in bytes of UTF-8. */
export function byteLength(text: string): number {
  return Buffer.byteLength(text);
}

/**
 * Refuses a text above `maxBytes` of UTF-8.
 *
 * @param field what the text belongs to, for the message
 * @throws TrunklineError LIMIT_EXCEEDED, with limit, size, max and field in its metadata
 */
export function checkBytes(text: string, field: string, maxBytes: number): void {
  // A UTF-16 unit takes at most three bytes, so most texts need no counting.
  if (text.length * 3 <= maxBytes) return;
  const size = byteLength(text);
  if (size <= maxBytes) return;
  throw new TrunklineError(
    "LIMIT_EXCEEDED",
    `${field} has ${String(size)} bytes; allowed are at most ${String(maxBytes)} bytes of UTF-8`,
    { metadata: { field, limit: "bytes", size: String(size), max: String(maxBytes) } },
  );
}

/**
 * A text as an error may show it: quoted, escaped so that it stays on one line and cannot act on a
 * terminal, and cut after `maxCharacters` UTF-16 units (40 by default).
 */
export function quoted(text: string, maxCharacters = 40): string {
  let shown = text;
  if (text.length > maxCharacters) {
    const last = text.charCodeAt(maxCharacters - 1);
    const splitsPair = last >= 0xd800 && last <= 0xdbff;
    shown = text.slice(0, splitsPair ? maxCharacters - 1 : maxCharacters);
  }
  const escaped = JSON.stringify(shown).replace(
    UNSEEN,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return shown === text ? escaped : `${escaped}… (${String(text.length)} characters)`;
}

/** The index of the quote that ends the string beginning at `open`, or the text's length. */
export function endOfString(text: string, open: number): number {
  let end = text.indexOf('"', open + 1);
  while (end !== -1) {
    let before = end - 1;
    while (text.charCodeAt(before) === BACKSLASH) before--;
    if ((end - before) % 2 === 1) return end;
    end = text.indexOf('"', end + 1);
  }
  return text.length;
}

/**
 * How many arrays and objects enclose the innermost value of a JSON text: 0 for a scalar, 1 for
 * `[]`. Takes linear time and no stack; brackets in strings do not count. Of a text that is not
 * JSON it says something between 0 and the text's length.
 */
export function jsonDepth(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = endOfString(text, at);
        break;
      case 0x5b: // [
      case 0x7b: // {
        depth++;
        if (depth > deepest) deepest = depth;
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth--;
        break;
    }
  }
  return deepest;
}

/** What a JSON text may measure. */
export interface JsonTextLimits {
  /** Bytes of UTF-8. */
  readonly maxBytes: number;
  /** Nested arrays and objects; `LIMITS.jsonDepth` unless given. */
  readonly maxDepth?: number;
}

function checkDepth(text: string, field: string, maxDepth: number): void {
  // Each level takes a bracket, so a short text cannot be too deep.
  if (text.length <= maxDepth) return;
  const depth = jsonDepth(text);
  if (depth <= maxDepth) return;
  throw new TrunklineError(
    "LIMIT_EXCEEDED",
    `${field} nests ${String(depth)} arrays and objects; allowed are at most ${String(maxDepth)}`,
    { metadata: { field, limit: "depth", size: String(depth), max: String(maxDepth) } },
  );
}

function invalidJson(text: string, field: string, fault: JsonFault | undefined): TrunklineError {
  const allowed = "allowed is one JSON value (RFC 8259)";
  if (text === "") {
    return new TrunklineError("INVALID_JSON", `${field} is empty; ${allowed}`, {
      metadata: { field, position: "0" },
    });
  }
  const { at, why } = fault ?? { at: 0, why: "the parser refuses it" };
  const from = Math.max(0, Math.min(at, text.length) - EXCERPT_CHARACTERS / 2);
  const excerpt = quoted(text.slice(from, from + EXCERPT_CHARACTERS));
  return new TrunklineError(
    "INVALID_JSON",
    `${field} is not JSON: at offset ${String(at)} of ${String(text.length)}, near ${excerpt}, ` +
      `${why}; ${allowed}`,
    { metadata: { field, position: String(at) } },
  );
}

/**
 * Checks a payload as {@link checkJsonText} does and also returns its value, for callers that look
 * into it. Numbers come as JavaScript has them: digits beyond 2^53 are lost in the value, never in
 * the text.
 *
 * @throws TrunklineError as {@link checkJsonText}
 */
export function parseJsonText(text: string, field: string, limits: JsonTextLimits): unknown {
  checkBytes(text, field, limits.maxBytes);
  // Before the parser: it accepts a million levels, which nothing downstream could walk.
  checkDepth(text, field, limits.maxDepth ?? LIMITS.jsonDepth);
  if (!text.isWellFormed()) throw invalidJson(text, field, findLoneSurrogate(text));
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own message repeats the payload and often lacks the place.
    throw invalidJson(text, field, findJsonFault(text));
  }
}

/**
 * Checks that a payload is one JSON text (RFC 8259) within its limits. It is never rewritten, so
 * whatever passes here must also pass PostgreSQL's `json` type, and does: that type, too, takes
 * white space around the value, numbers of any length and range (`1e400`), duplicate names and
 * every `\u` escape including NUL and lone surrogates (only `jsonb` refuses those), and both refuse
 * a byte order mark and unescaped control characters. Its depth is bounded by the server's stack
 * (`max_stack_depth`), at some thousands of levels, far above `LIMITS.jsonDepth`. Half of a
 * surrogate pair that is not escaped is refused, because UTF-8 turns it silently into U+FFFD.
 *
 * @param field what the payload is, for the message
 * @throws TrunklineError LIMIT_EXCEEDED for size or depth, with limit, size, max and field in its
 *   metadata; INVALID_JSON with the offset of the fault and at most 20 characters around it
 */
export function checkJsonText(text: string, field: string, limits: JsonTextLimits): void {
  const { maxBytes, maxDepth = LIMITS.jsonDepth } = limits;
  if (text.isWellFormed() && isJson(text, maxBytes, maxDepth)) return;
  // To say what is wrong, or to look at a text that is larger than any payload.
  parseJsonText(text, field, limits);
}
