import type { Outcome as WireOutcome } from "@trunkline/proto/model";
import type { CallRef } from "../core/call.js";
import { byteLength } from "../core/json-text.js";
import { formatCallId } from "../core/name.js";
import type { Outcome } from "../exchange/delivery.js";
import { outcomeOf } from "../exchange/waiters.js";
import { loadRecords } from "../store/calls-read.js";
import type { Database } from "../store/database.js";
import { toOutcomeMessage } from "./convert.js";
import { PAGE_PAYLOAD_BYTES } from "./page-token.js";

/** What an outcome takes beside its texts, roughly. */
const ROUGH_BYTES = 256;
/** The first read of payloads, whose sizes nobody knows yet. */
const FIRST_READ = 8;
const LARGEST_READ = 500;

/** What an outcome takes of a page. */
export function outcomeBytes({ resultJson, failure, key }: WireOutcome): number {
  const failed = failure === undefined ? 0 : byteLength(failure.message) + byteLength(failure.dataJson);
  return ROUGH_BYTES + byteLength(key) + byteLength(resultJson) + failed;
}

/** Outcomes that fit one page, and whether more would have followed. */
export interface OutcomePage {
  readonly outcomes: WireOutcome[];
  readonly more: boolean;
}

/**
 * The outcomes of ended calls, in the order of `ended`, as many as one page holds; those that are not among
 * the `told` ones are read, in chunks that are as large as what was read so far allows.
 */
export async function readOutcomes(
  db: Database,
  ended: readonly CallRef[],
  told: ReadonlyMap<string, Outcome>,
): Promise<OutcomePage> {
  const outcomes: WireOutcome[] = [];
  let bytes = 0;
  let size = FIRST_READ;
  for (let start = 0; start < ended.length;) {
    const chunk = ended.slice(start, start + size);
    start += chunk.length;
    for (const outcome of await readChunk(db, chunk, told)) {
      const message = toOutcomeMessage(outcome);
      bytes += outcomeBytes(message);
      if (bytes > PAGE_PAYLOAD_BYTES && outcomes.length > 0) return { outcomes, more: true };
      outcomes.push(message);
    }
    const average = Math.max(1, bytes / Math.max(1, outcomes.length));
    size = Math.min(LARGEST_READ, Math.max(1, Math.ceil((PAGE_PAYLOAD_BYTES - bytes) / average)));
  }
  return { outcomes, more: false };
}

async function readChunk(
  db: Database,
  refs: readonly CallRef[],
  told: ReadonlyMap<string, Outcome>,
): Promise<Outcome[]> {
  const unread = refs.filter((ref) => !told.has(formatCallId(ref)));
  const records = unread.length === 0 ? [] : await loadRecords(db, unread, { payloads: true });
  const read = new Map<string, Outcome>();
  for (const record of records) {
    const outcome = record === null ? undefined : outcomeOf(record);
    if (outcome !== undefined) read.set(formatCallId(outcome.call), outcome);
  }
  return refs.flatMap((ref) => told.get(formatCallId(ref)) ?? read.get(formatCallId(ref)) ?? []);
}
