/** @typedef {import("../../fault-run/random.mjs").Random} Random */

/** Numbers at the edges of every type that there is, as a protobuf or JSON field may have them. */
const WHOLE = [
  ...[0n, 1n, 2n, 7n, 100n, 127n, 128n, 255n, 256n, 1_000n, 1_001n, 10_000n, 10_001n, 65_535n],
  ...[2n ** 31n - 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n],
  ...[2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n, 315_576_000_000n, 315_576_000_001n],
];
const FLOATS = [NaN, Infinity, -Infinity, -0, 1e-300, 5e-324, 1.7976931348623157e308, 0.1, -1, 1e21];

const HOSTILE_TEXTS = [
  ...["", " ", "\0", "a\0b", "\n", "\r\n", "\u{1b}[2J", "\u202e", "\u{1f600}", "\ufeff", "\ufffe", "..", "/"],
  ...["../../etc/passwd", "%00", "%2f", "a/b", "a/1", "/1", "1/", "null", "true", "{}", "[]", '"', "\\", "'"],
  ...["';DROP TABLE calls;--", "$1", "{x}", "{", "}", "{a,b}", "NULL", "\\N", '"a"', "\\x00", "\u0130", "ß"],
  ...["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "valueOf", "then"],
  ...["<script>alert(1)</script>", "${7*7}", "{{7*7}}", "-1", "+1", "1e5", "0x10", "1".repeat(400)],
  ...["a".repeat(127), "a".repeat(128), "a".repeat(129), "a".repeat(256), "a".repeat(257), "é".repeat(128)],
  ...[
    "\u{1f600}".repeat(64),
    "a".repeat(8_193),
    "a".repeat(65_537),
    "\u0000".repeat(300),
    "a b",
    "a=b",
    "a\tb",
  ],
];

/** Bytes that are no UTF-8. */
const BROKEN_TEXTS = [
  Buffer.from([0xff]),
  Buffer.from([0xc0, 0x80]),
  Buffer.from([0xed, 0xa0, 0x80]),
  Buffer.from([0xed, 0xb0, 0x80]),
  Buffer.from([0xf4, 0x90, 0x80, 0x80]),
  Buffer.from([0x61, 0xe2, 0x82]),
  Buffer.from([0x80, 0x80, 0x80]),
  Buffer.from([0xf8, 0x88, 0x80, 0x80, 0x80]),
];

/**
 * A whole number at an edge, or any.
 *
 * @param {Random} random
 * @returns {bigint}
 */
export function wholeNumber(random) {
  if (random.chance(0.3)) return BigInt(random.int(0, 20));
  const number = random.chance(0.9) ? random.pick(WHOLE) : anyBits(random);
  return random.chance(0.2) ? -number : number;
}

/** @param {Random} random */
function anyBits(random) {
  return (BigInt(random.int(0, 2 ** 32 - 1)) << 32n) | BigInt(random.int(0, 2 ** 32 - 1));
}

/** @param {Random} random */
export function floatNumber(random) {
  return random.chance(0.5) ? random.next() * 4 : random.pick(FLOATS);
}

/**
 * Any text, more often a bad one than not.
 *
 * @param {Random} random
 * @returns {string}
 */
export function hostileText(random) {
  if (random.chance(0.75)) return random.pick(HOSTILE_TEXTS);
  const length = random.int(0, 40);
  return String.fromCodePoint(...Array.from({ length }, () => codePoint(random)));
}

/** @param {Random} random */
function codePoint(random) {
  const at = random.int(0, random.chance(0.7) ? 0x7f : 0x10_ffff);
  // Lone surrogates cannot be written in UTF-8: JSON has them as escapes, bytes as `brokenText`.
  return at >= 0xd800 && at <= 0xdfff ? 0xfffd : at;
}

/**
 * The text with one character more, fewer or other.
 *
 * @param {Random} random
 * @param {string} text
 */
export function alteredText(random, text) {
  const at = random.int(0, Math.max(0, text.length - 1));
  const [before, after] = [text.slice(0, at), text.slice(at + 1)];
  switch (random.int(0, 4)) {
    case 0:
      return before + after;
    case 1:
      return `${before}${random.pick(["0", "f", "Z", "/", ".", "\0", "é"])}${after}`;
    case 2:
      return `${text}${random.pick([" ", "\0", "/1", ".", "0"])}`;
    case 3:
      return text.toUpperCase();
    default:
      return before;
  }
}

/** @param {Random} random */
export function brokenText(random) {
  return random.pick(BROKEN_TEXTS);
}

/**
 * @param {Random} random
 * @param {number} most
 */
export function anyBytes(random, most) {
  return Buffer.from(Array.from({ length: random.int(0, most) }, () => random.int(0, 255)));
}
