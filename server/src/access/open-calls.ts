import { countOpenCalls } from "../store/open-calls.js";
import type { Database } from "../store/database.js";

/** What other nodes open and end is seen within this. */
const FRESH_MS = 5_000;
/** Owners of whom nobody opened a call for so long are forgotten. */
const FORGET_MS = 60_000;
const SWEEP_ABOVE = 1_000;

/** Whose open calls are counted. */
export interface CallOwner {
  readonly projectId: number;
  /** Null: of the whole project. */
  readonly namespace: string | null;
}

interface Count {
  /** As it was counted, and changed since. */
  open: number;
  /** Calls that are on their way to the database. */
  opening: number;
  countedAt: number;
  askedAt: number;
  counting: Promise<void> | null;
}

/**
 * How many calls each owner has open: counted by the database now and then, in one statement for each owner that opens
 * calls, and kept in between by what this node opens and ends. So a bound is passed at most by what other nodes open
 * within five seconds.
 */
export class OpenCalls {
  readonly #db: Database;
  readonly #max: number;
  readonly #counts = new Map<string, Count>();

  /** @param max how many each owner may have */
  constructor(db: Database, max: number) {
    this.#db = db;
    this.#max = max;
  }

  /**
   * Takes room for a call that is to be opened, until {@link opened}; false where there is none. At once, unless the
   * owner's calls were never counted here.
   */
  reserve(owner: CallOwner): boolean | Promise<boolean> {
    const now = performance.now();
    const key = keyOf(owner);
    const count = this.#counts.get(key) ?? this.#begin(key, now);
    count.askedAt = now;
    if (now - count.countedAt > FRESH_MS) count.counting ??= this.#read(owner, count);
    if (count.countedAt > -Infinity) return this.#take(count);
    return Promise.resolve(count.counting).then(() => this.#take(count));
  }

  #take(count: Count): boolean {
    if (count.open + count.opening >= this.#max) return false;
    count.opening++;
    return true;
  }

  /** A call that was on its way is stored, or is not. */
  opened(owner: CallOwner, stored: boolean): void {
    const count = this.#counts.get(keyOf(owner));
    if (count === undefined) return;
    count.opening--;
    if (stored) count.open++;
  }

  /** A call has ended here. */
  ended(owner: CallOwner): void {
    const count = this.#counts.get(keyOf(owner));
    if (count !== undefined && count.open > 0) count.open--;
  }

  #begin(key: string, now: number): Count {
    if (this.#counts.size >= SWEEP_ABOVE) {
      for (const [each, { askedAt, opening }] of this.#counts) {
        if (opening === 0 && now - askedAt > FORGET_MS) this.#counts.delete(each);
      }
    }
    const count = { open: 0, opening: 0, countedAt: -Infinity, askedAt: now, counting: null };
    this.#counts.set(key, count);
    return count;
  }

  async #read(owner: CallOwner, count: Count): Promise<void> {
    // What fails is tried again by the next open; until then the last count holds.
    try {
      count.open = await countOpenCalls(this.#db, owner.projectId, owner.namespace, this.#max + 1);
      count.countedAt = performance.now();
    } finally {
      count.counting = null;
    }
  }
}

function keyOf({ projectId, namespace }: CallOwner): string {
  return namespace === null ? String(projectId) : `${projectId}:${namespace}`;
}
