import { TrunklineError } from "../core/error.js";
import { LAST_SEQ, type ReadMark } from "../store/run-watch.js";
import { fromPageToken, listName, toPageToken } from "./page-token.js";

/** The place of a response in what happens to a run: what is seen by whoever has received it. */
export interface WatchCursor {
  /** All that was committed by this mark, but for what {@link above} says. */
  readonly mark: ReadMark;
  /** Of calls with higher numbers only what {@link before} says was seen; null: all is as {@link mark} says. */
  readonly above: number | null;
  /** What was seen of those: all that was committed by this mark; null: nothing. */
  readonly before: ReadMark | null;
  /** Whether the run was seen as ended. */
  readonly ended: boolean;
}

/** Calls that changed while nobody watched, to be told in the order of their numbers. */
export interface Leg {
  /** What changed since; null: all of them. */
  readonly since: ReadMark | null;
  /** Only calls above this number. */
  readonly after: number;
  /** By when the calls up to that number are known; null: by now. */
  readonly mark: ReadMark | null;
}

/**
 * What to tell to whoever comes with a cursor. Each told call moves the cursor on, so that whoever is cut off again and
 * again gets on as well: first to the end of what was begun before, and then through what has changed meanwhile.
 */
export function legsFrom(cursor: WatchCursor | null): readonly [Leg, ...Leg[]] {
  if (cursor === null) return [{ since: null, after: 0, mark: null }];
  const { mark, above, before } = cursor;
  const changed: Leg = { since: mark, after: 0, mark: null };
  return above === null ? [changed] : [{ since: before, after: above, mark }, changed];
}

const listOf = (runId: string): string => listName("watch", [runId]);

/** A cursor as its client keeps it. Opaque to clients, and no secret. */
export function toCursorToken(runId: string, { mark, above, before, ended }: WatchCursor): string {
  const rest = above === null || before === null ? [] : listed(before);
  return toPageToken(listOf(runId), [...listed(mark), above, ended, ...rest]);
}

const listed = ({ snapshot, at, startedAt }: ReadMark): unknown[] => [snapshot, at, startedAt];

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
  if (!Array.isArray(value)) return undefined;
  const items = value as readonly unknown[];
  const [mark, [above, ended], rest] = [readMark(items.slice(0, 3)), items.slice(3, 5), items.slice(5)];
  const before = rest.length === 0 ? null : readMark(rest);
  if (mark === undefined || before === undefined || typeof ended !== "boolean") return undefined;
  if (above !== null && !(isWhole(above) && above <= LAST_SEQ)) return undefined;
  return { mark, above, before, ended };
}

function readMark(items: readonly unknown[]): ReadMark | undefined {
  const [snapshot, at, startedAt, ...more] = items;
  if (typeof snapshot !== "string" || !isSnapshot(snapshot) || more.length > 0) return undefined;
  return isWhole(at) && isWhole(startedAt) ? { snapshot, at, startedAt } : undefined;
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
