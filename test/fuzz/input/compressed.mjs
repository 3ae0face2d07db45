import { brotliCompressSync, constants, deflateSync, gzipSync } from "node:zlib";
import { anyBytes } from "./values.mjs";
import { flipped } from "./binary.mjs";

/** @typedef {import("../../fault-run/random.mjs").Random} Random */

const MIB = 1024 * 1024;

/** The best takes seconds. */
const FAST = { params: { [constants.BROTLI_PARAM_QUALITY]: 3 } };

/** Small here, and far above every limit there. */
const BOMBS = {
  gzip: gzipSync(Buffer.alloc(64 * MIB)),
  br: brotliCompressSync(Buffer.alloc(256 * MIB), FAST),
};

const OTHER_ENCODINGS = [
  "identity",
  "deflate",
  "zstd",
  "gzip, br",
  "GZIP",
  "x-gzip",
  "",
  "*",
  "gzip;q=1",
  "snappy",
];

/**
 * The bytes in an encoding that the server knows or does not: well compressed, badly, not at all, or a bomb.
 *
 * @param {Random} random
 * @param {Buffer} bytes
 * @returns {{ encoding: string, bytes: Buffer }}
 */
export function compressed(random, bytes) {
  if (random.chance(0.15)) return { encoding: random.pick(OTHER_ENCODINGS), bytes };
  const encoding = random.pick(/** @type {const} */ (["gzip", "br"]));
  const whole = encoding === "gzip" ? gzipSync(bytes) : brotliCompressSync(bytes, FAST);
  switch (random.int(0, 9)) {
    case 0:
      return { encoding, bytes: whole.subarray(0, random.int(0, whole.length - 1)) };
    case 1:
      return { encoding, bytes: flipped(random, whole) };
    case 2:
      return { encoding, bytes: Buffer.concat([whole, random.chance(0.5) ? whole : anyBytes(random, 20)]) };
    case 3:
      return {
        encoding,
        bytes: random.pick([bytes, deflateSync(bytes), anyBytes(random, 100), Buffer.alloc(0)]),
      };
    case 4:
      return random.chance(0.3) ? { encoding, bytes: BOMBS[encoding] } : { encoding, bytes: whole };
    default:
      return { encoding, bytes: whole };
  }
}
