import type { Exchange } from "../exchange/exchange.js";
import { deleteEndedRuns, deleteOldSessions } from "../store/retention.js";

/** Rows of one statement: small, so that none holds its locks for long. */
const BATCH = 500;

/** Deletes what ended longer ago than `ageMs`; true when there may be more. */
export async function sweepRetention({ db }: Exchange, ageMs: number): Promise<boolean> {
  const runs = await deleteEndedRuns(db, ageMs, BATCH);
  const sessions = await deleteOldSessions(db, ageMs, BATCH);
  return runs === BATCH || sessions === BATCH;
}
