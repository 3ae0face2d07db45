import { http1Heads, http2Heads } from "./headers.mjs";
import { rawBytes } from "./raw.mjs";
import { settleRoute } from "./settle.mjs";
import { driveFrames, otherFrames, workFrames } from "./streams.mjs";
import { unaryBinary, unaryJson } from "./unary.mjs";

/** @typedef {import("./context.mjs").Kind} Kind */

/** All kinds of inputs. @type {readonly Kind[]} */
export const KINDS = [
  ...[workFrames, driveFrames, otherFrames, unaryBinary, unaryJson],
  ...[settleRoute, http1Heads, http2Heads, rawBytes],
];

/**
 * One of these, by their weights.
 *
 * @param {import("../../fault-run/random.mjs").Random} random
 * @param {readonly Kind[]} kinds
 * @returns {Kind}
 */
export function pickKind(random, kinds) {
  let left = random.next() * kinds.reduce((sum, { weight }) => sum + weight, 0);
  const [first] = kinds;
  if (first === undefined) throw new Error("there are no kinds");
  return kinds.find(({ weight }) => (left -= weight) < 0) ?? first;
}
