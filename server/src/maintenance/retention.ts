import type { Exchange } from "../exchange/exchange.js";
import { deleteEndedRuns, deleteOldSessions } from "../store/retention.js";

/** Rows of one statement: small, so that none holds its locks for long. */
const BATCH = 500;

/**
 * Every start of a worker or a node leaves a row, which nobody asks for after a day. Those of the last hour stay,
 * however short runs are kept: nodes and workers that live write down only now and then that they do.
 */
const SESSION_AGE_MS = { least: 60 * 60 * 1000, most: 24 * 60 * 60 * 1000 };

/**
 * Deletes runs that ended longer ago than `ageMs` (null keeps them), and sessions and nodes of which nothing was
 * heard for as long, but at least an hour and at most a day; true when there may be more.
 */
export async function sweepRetention({ db }: Exchange, ageMs: number | null): Promise<boolean> {
  const runs = ageMs === null ? 0 : await deleteEndedRuns(db, ageMs, BATCH);
  const sessionAgeMs = Math.max(SESSION_AGE_MS.least, Math.min(ageMs ?? Infinity, SESSION_AGE_MS.most));
  const sessions = await deleteOldSessions(db, sessionAgeMs, BATCH);
  return runs === BATCH || sessions === BATCH;
}
