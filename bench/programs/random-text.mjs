// Text that neither PostgreSQL nor anybody on the way can make smaller.
import { randomBytes } from "node:crypto";

/** @type {Map<number, string>} */
const made = new Map();

/**
 * So many characters, random ones; the same each time.
 *
 * @param {number} length
 */
export function randomText(length) {
  const text = made.get(length) ?? randomBytes(length).toString("base64").slice(0, length);
  made.set(length, text);
  return text;
}
