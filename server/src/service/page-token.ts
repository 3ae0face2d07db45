import { createHash } from "node:crypto";
import { TrunklineError } from "../core/error.js";
import { LIMITS } from "../core/limits.js";
import { checkName } from "../core/name.js";

const DEFAULT_PAGE_ITEMS = 100;
/** What a page's payloads may take together: the frame limit of clients, less room for all that is around them. */
export const PAGE_PAYLOAD_BYTES = LIMITS.pageBytes - 512 * 1024;

/**
 * How many items a page has: 100 where nothing is asked.
 *
 * @throws TrunklineError INVALID_FIELD
 */
export function pageItems(asked: number): number {
  if (asked <= LIMITS.pageItems) return asked === 0 ? DEFAULT_PAGE_ITEMS : asked;
  throw new TrunklineError(
    "INVALID_FIELD",
    `page_size is ${String(asked)}; allowed are 1 to ${String(LIMITS.pageItems)}, or 0 for ${String(DEFAULT_PAGE_ITEMS)}`,
    { metadata: { field: "page_size", value: String(asked), max: String(LIMITS.pageItems) } },
  );
}

/** Names one list with its filters, so that a token of another list is told apart. */
export function listName(kind: string, filters: readonly unknown[]): string {
  const digest = createHash("sha256").update(JSON.stringify(filters)).digest("base64url");
  return `${kind}:${digest.slice(0, 12)}`;
}

/** The token of the page that begins after `cursor`. Opaque to callers, and no secret. */
export function toPageToken(list: string, cursor: unknown): string {
  return Buffer.from(JSON.stringify([list, cursor])).toString("base64url");
}

/**
 * The cursor in a token, or null for the first page.
 *
 * @param read makes a cursor of what is in the token; undefined where it is none
 * @throws TrunklineError INVALID_FIELD for a token that this list did not make
 */
export function fromPageToken<T>(
  list: string,
  token: string,
  read: (value: unknown) => T | undefined,
): T | null {
  if (token === "") return null;
  const parts = parsed(token);
  const cursor = Array.isArray(parts) && parts.length === 2 && parts[0] === list ? read(parts[1]) : undefined;
  if (cursor !== undefined) return cursor;
  throw new TrunklineError(
    "INVALID_FIELD",
    "page_token is none of this list; allowed is next_page_token of the page before, with the same filters",
    { metadata: { field: "page_token" } },
  );
}

/** Reads a cursor that is a name: see {@link fromPageToken}. */
export function readName(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  try {
    checkName(value, "page_token");
    return value;
  } catch {
    return undefined;
  }
}

function parsed(token: string): unknown {
  try {
    return JSON.parse(Buffer.from(token, "base64url").toString("utf8"));
  } catch {
    return undefined;
  }
}
