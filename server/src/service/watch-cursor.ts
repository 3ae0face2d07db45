import { TrunklineError } from "../core/error.js";
import { LAST_SEQ, type ReadMark } from "../store/run-watch.js";
import { fromPageToken, listName, toPageToken } from "./page-token.js";

/** The place of a response in what happens to a run: what is seen by whoever has received it. */
export interface WatchCursor {
  /** All that was committed by this mark, but for what {@link above} says. */
  readonly mark: ReadMark;
  /** Of calls with higher numbers nothing was seen yet; null: of all of them something was. */
  readonly above: number | null;
  /** Whether the run was seen as ended. */
  readonly ended: boolean;
}

const listOf = (runId: string): string => listName("watch", [runId]);

/** A cursor as its client keeps it. Opaque to clients, and no secret. */
export function toCursorToken(runId: string, { mark, above, ended }: WatchCursor): string {
  const { snapshot, at, startedAt } = mark;
  return toPageToken(listOf(runId), [snapshot, at, startedAt, above, ended]);
}

/**
 * The cursor in a token, or null for the beginning.
 *
 * @throws TrunklineError INVALID_FIELD for a token that was not made for this run
 */
export function fromCursorToken(runId: string, token: string): WatchCursor | null {
  try {
    return fromPageToken(listOf(runId), token, readCursor);
  } catch (error) {
    if (!(error instanceof TrunklineError)) throw error;
    throw new TrunklineError(
      "INVALID_FIELD",
      "cursor is none of this run; allowed is the cursor of a response about it, or nothing for the beginning",
      { metadata: { field: "cursor" } },
    );
  }
}

function readCursor(value: unknown): WatchCursor | undefined {
  if (!Array.isArray(value) || value.length !== 5) return undefined;
  const [snapshot, at, startedAt, above, ended] = value as readonly unknown[];
  if (typeof snapshot !== "string" || !isSnapshot(snapshot) || typeof ended !== "boolean") return undefined;
  if (!isWhole(at) || !isWhole(startedAt)) return undefined;
  if (above !== null && !(isWhole(above) && above <= LAST_SEQ)) return undefined;
  return { mark: { snapshot, at, startedAt }, above, ended };
}

function isWhole(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** Above what PostgreSQL writes for all of its connections. */
const MAX_SNAPSHOT_LENGTH = 64 * 1024;
const SNAPSHOT = /^([1-9]\d{0,18}):([1-9]\d{0,18}):((?:[1-9]\d{0,18})(?:,[1-9]\d{0,18})*)?$/;

/** Whether PostgreSQL reads this as a `pg_snapshot`: two bounds, and between them numbers that go up. */
function isSnapshot(text: string): boolean {
  if (text.length > MAX_SNAPSHOT_LENGTH) return false;
  const [, low = "", high = "", between = ""] = SNAPSHOT.exec(text) ?? [];
  if (low === "") return false;
  const [min, max] = [BigInt(low), BigInt(high)];
  if (min > max || max > MAX_TRANSACTION) return false;
  let last = min - 1n;
  for (const each of between === "" ? [] : between.split(",")) {
    const number = BigInt(each);
    if (number <= last || number >= max) return false;
    last = number;
  }
  return true;
}

const MAX_TRANSACTION = 2n ** 63n - 1n;
