import { LIMITS } from "./limits.js";

const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
const UPPER_E = 0x45;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const LOWER_E = 0x65;
const LOWER_U = 0x75;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** What a byte may be; one may be several of them. */
const SPACE = 1;
const DIGIT = 2;
const HEX_DIGIT = 4;
/** May follow a backslash, and is an escape with it. */
const ESCAPED = 8;
/** Stands for itself in a string. */
const PLAIN = 16;

const KINDS = new Uint8Array(256);
for (const [kind, characters] of [
  [SPACE, " \t\n\r"],
  [DIGIT, "0123456789"],
  [HEX_DIGIT, "0123456789abcdefABCDEF"],
  [ESCAPED, '"\\/bfnrt'],
] as const) {
  for (const character of characters)
    KINDS[character.charCodeAt(0)] = kindsOf(character.charCodeAt(0)) | kind;
}
for (let byte = 0x20; byte < KINDS.length; byte++) {
  if (byte !== QUOTE && byte !== BACKSLASH) KINDS[byte] = kindsOf(byte) | PLAIN;
}

const ENCODER = new TextEncoder();
const LITERALS = ["true", "false", "null"].map((word) => ENCODER.encode(word));

/*
 * The text that is being checked, in UTF-8, which is read three times as fast as a string is; always the same memory,
 * since to touch fresh one would take longer than the check. A NUL, which is of no kind, is behind the text.
 */
const WORD_BYTES = 4;
const BYTES = new Uint8Array(LIMITS.payloadBytes + WORD_BYTES);
const WORDS = new Int32Array(BYTES.buffer);
const ROOM = BYTES.subarray(0, LIMITS.payloadBytes);

/** A place for what is not JSON. */
const NOWHERE = -1;

/**
 * Whether a text is one JSON value (RFC 8259), as `JSON.parse` has it, of at most `maxBytes` of UTF-8, that nests at most
 * `maxDepth` arrays and objects. It builds nothing and takes about as long whatever the text is: the parser takes thirty
 * times as long for an object of many names as for one long string. What is larger than a payload may be is not looked
 * at: `false`.
 */
export function isJson(text: string, maxBytes: number, maxDepth: number): boolean {
  const { read, written } = ENCODER.encodeInto(text, ROOM);
  if (read < text.length || written > maxBytes) return false;
  BYTES[written] = 0;
  return afterValue(maxDepth) === written;
}

/** To the end of the value that the text begins with, and of the space around it. */
function afterValue(maxDepth: number): number {
  /** What closes the arrays and objects around the place, the innermost last. */
  const closers: number[] = [];
  let at = afterKind(SPACE, 0);
  for (;;) {
    const first = byteAt(at);
    if (first === OPEN_BRACE || first === OPEN_BRACKET) {
      if (closers.length === maxDepth) return NOWHERE;
      const closer = first === OPEN_BRACE ? CLOSE_BRACE : CLOSE_BRACKET;
      closers.push(closer);
      at = afterKind(SPACE, at + 1);
      if (byteAt(at) !== closer) {
        if (closer === CLOSE_BRACE) at = afterName(at);
        if (at === NOWHERE) return NOWHERE;
        continue;
      }
    } else {
      at = first === QUOTE ? afterString(at + 1) : afterScalar(at);
      if (at === NOWHERE) return NOWHERE;
    }
    at = toNextItem(at, closers);
    if (at === NOWHERE || closers.length === 0) return at;
    if (closers.at(-1) === CLOSE_BRACE) at = afterName(at);
    if (at === NOWHERE) return NOWHERE;
  }
}

/** From the end of an item to the next one, over all that is closed between them; or to the end of everything. */
function toNextItem(from: number, closers: number[]): number {
  let at = afterKind(SPACE, from);
  while (closers.length > 0) {
    const next = byteAt(at);
    at = afterKind(SPACE, at + 1);
    if (next === COMMA) return at;
    if (next !== closers.pop()) return NOWHERE;
  }
  return at;
}

/** From a member's name to its value. */
function afterName(from: number): number {
  if (byteAt(from) !== QUOTE) return NOWHERE;
  const end = afterString(from + 1);
  if (end === NOWHERE) return NOWHERE;
  const colon = afterKind(SPACE, end);
  return byteAt(colon) === COLON ? afterKind(SPACE, colon + 1) : NOWHERE;
}

/** From behind the quote that opens a string to behind the one that closes it. */
function afterString(from: number): number {
  let at = from;
  for (;;) {
    while (isOf(PLAIN, at)) {
      at++;
      if (at % WORD_BYTES === 0) at = afterPlainWords(at);
    }
    const byte = byteAt(at);
    if (byte === QUOTE) return at + 1;
    if (byte !== BACKSLASH) return NOWHERE;
    at = afterEscape(at + 1);
    if (at === NOWHERE) return NOWHERE;
  }
}

/**
 * Over as many words as are surely plain. Of each byte the first bit is set by subtraction, and was not set before,
 * when it is below what is subtracted: a space, or one, where a byte that is looked for has become zero.
 */
function afterPlainWords(from: number): number {
  for (let index = from / WORD_BYTES; ; index++) {
    const word = WORDS[index] ?? 0;
    const quotes = word ^ 0x22222222;
    const backslashes = word ^ 0x5c5c5c5c;
    const below =
      ((word - 0x20202020) & ~word) |
      ((quotes - 0x01010101) & ~quotes) |
      ((backslashes - 0x01010101) & ~backslashes);
    if ((below & 0x80808080) !== 0) return index * WORD_BYTES;
  }
}

/** From behind a backslash to the end of the escape. */
function afterEscape(from: number): number {
  if (isOf(ESCAPED, from)) return from + 1;
  if (byteAt(from) !== LOWER_U) return NOWHERE;
  for (let at = from + 1; at <= from + 4; at++) if (!isOf(HEX_DIGIT, at)) return NOWHERE;
  return from + 5;
}

/** To the end of a number or a literal. */
function afterScalar(from: number): number {
  if (byteAt(from) === MINUS) return afterNumber(from + 1);
  if (isOf(DIGIT, from)) return afterNumber(from);
  for (const literal of LITERALS) {
    if (literal[0] === byteAt(from)) return afterLiteral(literal, from);
  }
  return NOWHERE;
}

function afterNumber(from: number): number {
  let at = byteAt(from) === ZERO ? from + 1 : afterDigits(from);
  if (at !== NOWHERE && byteAt(at) === DOT) at = afterDigits(at + 1);
  if (at === NOWHERE) return NOWHERE;
  if (byteAt(at) !== LOWER_E && byteAt(at) !== UPPER_E) return at;
  const sign = byteAt(at + 1);
  return afterDigits(sign === PLUS || sign === MINUS ? at + 2 : at + 1);
}

function afterDigits(from: number): number {
  const at = afterKind(DIGIT, from);
  return at === from ? NOWHERE : at;
}

function afterLiteral(literal: Uint8Array, from: number): number {
  for (let index = 0; index < literal.length; index++) {
    if (byteAt(from + index) !== literal[index]) return NOWHERE;
  }
  return from + literal.length;
}

function afterKind(kind: number, from: number): number {
  let at = from;
  while (isOf(kind, at)) at++;
  return at;
}

function isOf(kind: number, at: number): boolean {
  return (kindsOf(byteAt(at)) & kind) !== 0;
}

function kindsOf(byte: number): number {
  return KINDS[byte] ?? 0;
}

function byteAt(at: number): number {
  return BYTES[at] ?? 0;
}
