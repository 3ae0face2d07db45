import { isEnded, type Call, type CallRef } from "../core/call.js";
import { loadCalls, loadRecords } from "../store/calls-read.js";
import type { Database } from "../store/database.js";
import type { Instant } from "../store/rows.js";
import type { Outcome } from "./delivery.js";

/** Calls of one look: without their payloads they are small. */
const LOOK_CHUNK = 1_000;
/** Results that are read at once: each may have a mebibyte. */
const RESULT_CHUNK = 32;

/** A call that was looked at. */
export interface LookedAt {
  readonly ref: CallRef;
  readonly call: Call;
  /** Null while the call is open. */
  readonly outcome: Outcome | null;
}

/**
 * Looks at calls as they stand, in no order; those that are not there are left out. However many they are, only
 * a few results are in memory at a time.
 */
export async function* lookAtCalls(db: Database, refs: readonly CallRef[]): AsyncGenerator<LookedAt> {
  for (let start = 0; start < refs.length; start += LOOK_CHUNK) {
    const chunk = refs.slice(start, start + LOOK_CHUNK);
    const ended: { readonly ref: CallRef; readonly endedAt: Instant | null }[] = [];
    for (const [index, record] of (await loadRecords(db, chunk, { payloads: false })).entries()) {
      const ref = chunk[index];
      if (record === null || ref === undefined) continue;
      if (isEnded(record.call)) ended.push({ ref, endedAt: record.endedAt });
      else yield { ref, call: record.call, outcome: null };
    }
    for (let first = 0; first < ended.length; first += RESULT_CHUNK) {
      const part = ended.slice(first, first + RESULT_CHUNK);
      const calls = await loadCalls(
        db,
        part.map(({ ref }) => ref),
      );
      for (const [index, { ref, endedAt }] of part.entries()) {
        const call = calls[index];
        if (call !== null && call !== undefined && isEnded(call)) {
          yield { ref, call, outcome: { call, endedAt } };
        }
      }
    }
  }
}
