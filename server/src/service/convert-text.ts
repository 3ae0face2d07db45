import { byteLength } from "../core/json-text.js";

const ELLIPSIS = "…";

/**
 * A text of at most `maxBytes` of UTF-8: cut between two characters, with an ellipsis that counts, where it
 * is longer; half a surrogate pair, which UTF-8 cannot carry, becomes U+FFFD.
 */
export function cutText(text: string, maxBytes: number): string {
  const whole = text.toWellFormed();
  if (whole.length * 3 <= maxBytes) return whole;
  if (byteLength(whole) <= maxBytes) return whole;
  const room = maxBytes - byteLength(ELLIPSIS);
  // No character takes less than a byte, so nothing beyond these can fit.
  const bytes = Buffer.from(whole.slice(0, room), "utf8");
  let end = Math.min(room, bytes.length);
  // A byte 10xxxxxx goes on with the character before it.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end) + ELLIPSIS;
}
