import { randomBytes } from "node:crypto";

const RANDOM_BYTES = 16;
const ZEROS = "00000000";

/**
 * Makes keys that nobody else makes: 128 random bits, drawn once, and a number. In their order they lie side by side
 * in the database's index, where random ones would touch a page each.
 */
export function orderedKeys(prefix: string): () => string {
  const own = `${prefix}-${randomBytes(RANDOM_BYTES).toString("base64url")}-`;
  let made = 0;
  return () => {
    const digits = (made++).toString(36);
    return own + ZEROS.slice(digits.length) + digits;
  };
}
