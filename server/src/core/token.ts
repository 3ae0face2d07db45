import type { TokenHash } from "./call.js";

/** Whether a token with this hash was made for the attempt. How long that takes says nothing of how near it came. */
export function hasToken(tokens: readonly TokenHash[], attempt: number, hash: string): boolean {
  // Each is looked at, also after the one that fits.
  return tokens.filter((token) => token.attempt === attempt && isSameHash(token.hash, hash)).length > 0;
}

/** As `===` of two hashes, but by all their characters, wherever they differ. */
export function isSameHash(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let index = 0; index < a.length; index++) difference |= a.charCodeAt(index) ^ b.charCodeAt(index);
  return difference === 0;
}
