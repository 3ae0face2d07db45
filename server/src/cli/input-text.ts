import { open } from "node:fs/promises";
import { TrunklineError } from "../core/error.js";
import { checkJsonText } from "../core/json-text.js";
import { LIMITS } from "../core/limits.js";

/** What names standard input where a file or a text is wanted. */
export const STDIN = "-";

/**
 * Reads a file whole, or standard input for `-`.
 *
 * @param field what the text is for, for the message
 * @throws TrunklineError INVALID_FIELD when it cannot be read or is not UTF-8, LIMIT_EXCEEDED above `maxBytes`
 */
export async function readText(source: string, field: string, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of await bytesOf(source, field)) {
    size += chunk.length;
    if (size > maxBytes) {
      throw new TrunklineError(
        "LIMIT_EXCEEDED",
        `${field}: more than ${maxBytes} bytes; allowed: at most that`,
      );
    }
    chunks.push(chunk);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch (cause) {
    throw new TrunklineError("INVALID_FIELD", `${field}: is not UTF-8`, { cause });
  }
}

async function bytesOf(source: string, field: string): Promise<AsyncIterable<Buffer>> {
  if (source === STDIN) return process.stdin;
  try {
    const file = await open(source);
    if ((await file.stat()).isFile()) return file.createReadStream();
    await file.close();
  } catch (cause) {
    throw unreadable(source, field, cause);
  }
  throw unreadable(source, field, NOT_A_FILE);
}

const NOT_A_FILE = "it is not a file";

/** What the system's codes mean to who has named the file. */
const PLAIN: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  EACCES: "permission denied",
  EISDIR: NOT_A_FILE,
};

/** The error of a file that cannot be read, from what was thrown or a word of our own. */
export function unreadable(file: string, field: string, cause: unknown): TrunklineError {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  const why = PLAIN[code] ?? (cause instanceof Error ? cause.message : String(cause));
  return new TrunklineError("INVALID_FIELD", `${field}: cannot read ${JSON.stringify(file)} (${why})`, {
    metadata: { field },
  });
}

/** Text that was not meant as anything else. */
const BARE_WORDS = /^\p{L}[\p{L}\p{N} .,!?-]{0,60}$/u;

/**
 * The payload that an argument gives: JSON text itself, or `-` for standard input. Digits are not touched.
 *
 * @throws TrunklineError INVALID_JSON, LIMIT_EXCEEDED
 */
export async function readPayload(
  argument: string,
  field: string,
  maxBytes: number = LIMITS.payloadBytes,
): Promise<string> {
  const text = argument === STDIN ? await readText(STDIN, field, maxBytes) : argument;
  try {
    checkJsonText(text, field, { maxBytes, maxDepth: LIMITS.jsonDepth });
  } catch (error) {
    // The shell takes quotes away, and most people forget that JSON has its own.
    if (!(error instanceof TrunklineError) || !BARE_WORDS.test(argument)) throw error;
    const { reason, message, metadata } = error;
    throw new TrunklineError(
      reason,
      `${message}; a text needs quotes of its own: '${JSON.stringify(argument)}'`,
      {
        metadata,
        cause: error,
      },
    );
  }
  return text;
}
