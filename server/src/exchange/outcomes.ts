import { isEnded, type Call, type CallRef } from "../core/call.js";
import { loadCalls, seeCalls } from "../store/calls-read.js";
import type { Database } from "../store/database.js";
import type { Instant } from "../store/rows.js";
import type { Outcome } from "./delivery.js";

/** Calls of one look, which brings small results only. */
const LOOK_CHUNK = 1_000;
/** Large results that are read at once: each may have a mebibyte. */
const RESULT_CHUNK = 32;

/** A call that was looked at. */
export interface LookedAt {
  readonly ref: CallRef;
  readonly call: Call;
  /** Null while the call is open. */
  readonly outcome: Outcome | null;
}

interface Ended {
  readonly ref: CallRef;
  readonly endedAt: Instant | null;
}

/**
 * Looks at calls as they stand, in no order; those that are not there are left out. However many they are, only
 * a few large results are in memory at a time.
 */
export async function* lookAtCalls(db: Database, refs: readonly CallRef[]): AsyncGenerator<LookedAt> {
  for (let start = 0; start < refs.length; start += LOOK_CHUNK) {
    const chunk = refs.slice(start, start + LOOK_CHUNK);
    const cut: Ended[] = [];
    for (const [index, seen] of (await seeCalls(db, chunk)).entries()) {
      const ref = chunk[index];
      if (seen === null || ref === undefined) continue;
      const { call, endedAt } = seen;
      if (seen.cut) cut.push({ ref, endedAt });
      else yield { ref, call, outcome: isEnded(call) ? { call, endedAt } : null };
    }
    yield* readResults(db, cut);
  }
}

async function* readResults(db: Database, ended: readonly Ended[]): AsyncGenerator<LookedAt> {
  for (let start = 0; start < ended.length; start += RESULT_CHUNK) {
    const chunk = ended.slice(start, start + RESULT_CHUNK);
    const calls = await loadCalls(
      db,
      chunk.map(({ ref }) => ref),
    );
    for (const [index, { ref, endedAt }] of chunk.entries()) {
      const call = calls[index];
      if (call !== null && call !== undefined && isEnded(call))
        yield { ref, call, outcome: { call, endedAt } };
    }
  }
}
