import { ScalarType } from "@bufbuild/protobuf";
import { anyBytes, brokenText, wholeNumber } from "./values.mjs";

/** @typedef {import("../../fault-run/random.mjs").Random} Random */
/** @typedef {import("@bufbuild/protobuf").DescField} DescField */
/** @typedef {import("./message.mjs").Filled} Filled */
/** @typedef {import("./message.mjs").Part} Part */
/** @typedef {import("./message.mjs").Value} Value */

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const GROUP_START = 3;
const GROUP_END = 4;
const FIXED32 = 5;

const ZIGZAG = new Set([ScalarType.SINT32, ScalarType.SINT64]);

/**
 * The message in protobuf's binary form, as it would be written by somebody who knows no types.
 *
 * @param {Filled} filled
 * @returns {Buffer}
 */
export function toBytes({ parts }) {
  return Buffer.concat(parts.map(partBytes));
}

/** @param {Part} part */
function partBytes({ field, value, key }) {
  if (key === undefined) return valueBytes(field, field.number, value);
  const entry = [tag(1, BYTES), prefixed(textBytes(key)), valueBytes(field, 2, value)];
  return Buffer.concat([tag(field.number, BYTES), prefixed(Buffer.concat(entry))]);
}

/**
 * @param {DescField} field
 * @param {number} number
 * @param {Value} value
 */
function valueBytes(field, number, value) {
  if (typeof value === "boolean") return Buffer.concat([tag(number, VARINT), varint(value ? 1n : 0n)]);
  if (typeof value === "number") {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleLE(value);
    return Buffer.concat([tag(number, FIXED64), bytes]);
  }
  if (typeof value === "bigint") {
    const zigzag = field.scalar !== undefined && ZIGZAG.has(field.scalar);
    const written = zigzag ? (value << 1n) ^ (value >> 63n) : value;
    return Buffer.concat([tag(number, VARINT), varint(written)]);
  }
  const isMessage = typeof value === "object" && "parts" in value;
  return Buffer.concat([tag(number, BYTES), prefixed(isMessage ? toBytes(value) : textBytes(value))]);
}

/** @param {Value} text */
function textBytes(text) {
  return Buffer.isBuffer(text) ? text : Buffer.from(String(text));
}

/** @param {Buffer} bytes */
function prefixed(bytes) {
  return Buffer.concat([varint(BigInt(bytes.length)), bytes]);
}

/**
 * @param {number} number
 * @param {number} wireType
 */
function tag(number, wireType) {
  return varint((BigInt(number) << 3n) | BigInt(wireType));
}

/** @param {bigint} value Negative ones take ten bytes. */
function varint(value) {
  let rest = BigInt.asUintN(64, value);
  const bytes = [];
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest === 0n ? low : low | 0x80);
  } while (rest !== 0n);
  return Buffer.from(bytes);
}

/** What may follow, or break, a good message. @type {((random: Random) => Buffer)[]} */
const STRAYS = [
  (random) =>
    Buffer.concat([tag(random.int(1, 20), VARINT), Buffer.alloc(random.pick([9, 10, 11, 500]), 0xff)]),
  (random) => Buffer.concat([tag(random.int(1, 20), BYTES), varint(wholeNumber(random))]),
  (random) => Buffer.concat([tag(random.int(1, 20), BYTES), prefixed(brokenText(random))]),
  (random) => Buffer.concat([tag(random.int(1, 20), random.int(6, 7)), anyBytes(random, 8)]),
  (random) =>
    Buffer.concat([
      tag(random.pick([0, 19_000, 536_870_911, 2 ** 31]), BYTES),
      prefixed(anyBytes(random, 8)),
    ]),
  (random) => Buffer.concat([tag(random.int(1, 99), random.pick([FIXED32, FIXED64])), anyBytes(random, 9)]),
  (random) =>
    Buffer.concat([
      tag(random.int(1, 99), GROUP_START),
      anyBytes(random, 9),
      tag(random.int(1, 99), GROUP_END),
    ]),
  (random) => groups(random),
  (random) => empties(random),
  (random) => empties(random),
  (random) => tag(random.int(1, 99), GROUP_END),
  (random) =>
    Buffer.concat(
      Array.from({ length: 200 }, () => Buffer.concat([tag(random.int(50, 90), VARINT), varint(1n)])),
    ),
  (random) => Buffer.concat([tag(random.int(1, 12), BYTES), prefixed(anyBytes(random, 300))]),
];

/**
 * Very many items that have nothing in them: few bytes there, many objects here.
 *
 * @param {Random} random
 */
function empties(random) {
  const item = Buffer.concat([tag(random.int(1, 15), BYTES), Buffer.alloc(1)]);
  return Buffer.alloc(random.pick([1_000, 20_000, 400_000, 2_000_000]) * item.length, item);
}

/** @param {Random} random */
function groups(random) {
  const depth = random.pick([2, 99, 101, 1_000, 100_000, 1_000_000]);
  const start = tag(random.int(1, 15), GROUP_START);
  const end = Buffer.from([(start[0] ?? 0) + 1]);
  const opened = Buffer.alloc(depth, start);
  return random.chance(0.7) ? Buffer.concat([opened, Buffer.alloc(depth, end)]) : opened;
}

/**
 * The bytes with something wrong in them: bits, length, order, or something that does not belong there.
 *
 * @param {Random} random
 * @param {Buffer} bytes
 * @returns {Buffer}
 */
export function mutated(random, bytes) {
  const at = random.int(0, bytes.length);
  switch (random.int(0, 7)) {
    case 0:
      return flipped(random, bytes);
    case 1:
      return bytes.subarray(0, at);
    case 2:
      return bytes.subarray(at);
    case 3:
      return Buffer.concat([bytes.subarray(0, at), anyBytes(random, 10), bytes.subarray(at)]);
    case 4:
      return Buffer.concat([bytes, bytes]);
    case 5:
      return anyBytes(random, 200);
    default: {
      const stray = random.pick(STRAYS)(random);
      return random.chance(0.7)
        ? Buffer.concat([bytes, stray])
        : Buffer.concat([bytes.subarray(0, at), stray, bytes.subarray(at)]);
    }
  }
}

/**
 * @param {Random} random
 * @param {Buffer} bytes
 */
export function flipped(random, bytes) {
  const copy = Buffer.from(bytes);
  for (let left = random.int(1, 4); left > 0 && copy.length > 0; left--) {
    const at = random.int(0, copy.length - 1);
    copy[at] = (copy[at] ?? 0) ^ (1 << random.int(0, 7));
  }
  return copy;
}
