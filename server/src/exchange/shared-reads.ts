import { Batcher } from "./batcher.js";

/** How {@link SharedReads} read. */
export interface SharedReadsOptions<Ref, Row> {
  /** Reads rows: what there is, in the refs' order, and null for the rest. */
  readonly read: (refs: readonly Ref[]) => Promise<readonly (Row | null)[]>;
  /** Whether two refs name the same. */
  readonly keyOf: (ref: Ref) => string;
  /** Whose row it is: where many are asked for, each gets some after the other. */
  readonly laneOf: (ref: Ref) => string;
  /** So many rows at once. */
  readonly maxItems: number;
}

const ROUGH_BYTES = 100;
const IN_FLIGHT = 2;

/**
 * Reads rows in batches, and each row once for all who ask for it before its batch leaves: what they are given was
 * read after they asked.
 */
export class SharedReads<Ref, Row> {
  readonly #keyOf: (ref: Ref) => string;
  readonly #batches: Batcher<Ref, Row | null>;
  /** Those that no batch has taken yet. */
  readonly #waiting = new Map<string, Promise<Row | null>>();

  constructor({ read, keyOf, laneOf, maxItems }: SharedReadsOptions<Ref, Row>) {
    this.#keyOf = keyOf;
    this.#batches = new Batcher({
      write: (refs) => {
        for (const ref of refs) this.#waiting.delete(keyOf(ref));
        return read(refs);
      },
      sizeOf: () => ROUGH_BYTES,
      laneOf,
      maxItems,
      maxInFlight: IN_FLIGHT,
    });
  }

  /** The row as it stands, or null. */
  get(ref: Ref): Promise<Row | null> {
    const key = this.#keyOf(ref);
    let reading = this.#waiting.get(key);
    if (reading === undefined) {
      reading = this.#batches.push(ref);
      this.#waiting.set(key, reading);
    }
    return reading;
  }
}
