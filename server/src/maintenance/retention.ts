import type { Exchange } from "../exchange/exchange.js";
import { deleteEndedRuns, deleteOldSessions } from "../store/retention.js";

/** Rows of one statement: small, so that none holds its locks for long. */
const BATCH = 500;

/** Every start of a worker or a node leaves a row, which nobody asks for after a day. */
const SESSION_AGE_MS = 24 * 60 * 60 * 1000;

/**
 * Deletes runs that ended longer ago than `ageMs` (null keeps them), and sessions and nodes of which nothing was
 * heard for as long, or for a day; true when there may be more.
 */
export async function sweepRetention({ db }: Exchange, ageMs: number | null): Promise<boolean> {
  const runs = ageMs === null ? 0 : await deleteEndedRuns(db, ageMs, BATCH);
  const sessions = await deleteOldSessions(db, Math.min(ageMs ?? SESSION_AGE_MS, SESSION_AGE_MS), BATCH);
  return runs === BATCH || sessions === BATCH;
}
