import { randomFillSync } from "node:crypto";

const ID_BYTES = 16;
/** Random bytes are drawn for so many ids at once: one draw costs as much as an id does otherwise. */
const pool = Buffer.alloc(256 * ID_BYTES);
let used = pool.length;

/** 128 random bits in base64url: nobody guesses it, and no two are alike. */
export function randomId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const id = pool.toString("base64url", used, used + ID_BYTES);
  // What has been given out is not kept.
  pool.fill(0, used, used + ID_BYTES);
  used += ID_BYTES;
  return id;
}
