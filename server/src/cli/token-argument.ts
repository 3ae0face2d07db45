import { TrunklineError } from "../core/error.js";
import { readText, STDIN } from "./input-text.js";

/** Far above any token, with room for stray white space. */
const MAX_BYTES = 4_096;

/** How the token's argument is described in help. */
export const TOKEN_HELP = "the token; - reads it from standard input, where other users cannot see it";

/**
 * The token that an argument gives: itself, or standard input's for `-`.
 *
 * @param others arguments that read standard input too when they are `-`
 * @throws TrunklineError INVALID_FIELD when two arguments want standard input
 */
export async function readToken(
  argument: string,
  ...others: readonly (string | undefined)[]
): Promise<string> {
  if (argument !== STDIN) return argument;
  if (others.includes(STDIN)) {
    throw new TrunklineError("INVALID_FIELD", "TOKEN: standard input can be only one of the arguments");
  }
  return (await readText(STDIN, "TOKEN", MAX_BYTES)).trim();
}
