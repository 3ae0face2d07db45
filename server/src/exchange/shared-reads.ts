import type { CallRef } from "../core/call.js";
import type { CallRecord } from "../store/rows.js";
import { Batcher } from "./batcher.js";
import { callKey } from "./call-key.js";

/** How {@link SharedReads} read. */
export interface SharedReadsOptions {
  /** Reads calls: what there is, in their order, and null for the rest. */
  readonly read: (refs: readonly CallRef[]) => Promise<readonly (CallRecord | null)[]>;
  /** So many calls at once. */
  readonly maxItems: number;
  readonly maxInFlight: number;
}

const ROUGH_BYTES = 100;

/**
 * Reads calls in batches, and each call once for all who ask for it before its batch leaves: what they are given was
 * read after they asked.
 */
export class SharedReads {
  readonly #batches: Batcher<CallRef, CallRecord | null>;
  /** Those that no batch has taken yet. */
  readonly #waiting = new Map<string, Promise<CallRecord | null>>();

  constructor({ read, maxItems, maxInFlight }: SharedReadsOptions) {
    this.#batches = new Batcher({
      write: (refs) => {
        for (const ref of refs) this.#waiting.delete(callKey(ref));
        return read(refs);
      },
      sizeOf: () => ROUGH_BYTES,
      laneOf: ({ runId }) => runId,
      maxItems,
      maxInFlight,
    });
  }

  /** The call as it stands, or null. */
  get(ref: CallRef): Promise<CallRecord | null> {
    const key = callKey(ref);
    let reading = this.#waiting.get(key);
    if (reading === undefined) {
      reading = this.#batches.push(ref);
      this.#waiting.set(key, reading);
    }
    return reading;
  }
}
