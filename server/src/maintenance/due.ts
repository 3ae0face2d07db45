import type { Exchange } from "../exchange/exchange.js";
import { cancelOpenCalls } from "../exchange/run-end.js";
import { nextDue, takeDue } from "../store/due.js";
import { dueRuns } from "../store/runs.js";

const SWEEP_LIMIT = 500;
/** The longest sleep between two sweeps: what another node sets is found by then. */
export const LONGEST_SLEEP_MS = 2_000;

/**
 * Brings about what is due by the database's clock: ends of backoffs, timeouts, TTLs of runs, and the
 * canceling of calls in runs that have ended.
 *
 * @returns how long nothing will be due, in milliseconds.
 */
export async function sweepDue(exchange: Exchange): Promise<number> {
  const { db } = exchange;
  const calls = await takeDue(db, SWEEP_LIMIT);
  const applied = calls.map(({ call, ready, attempt, defer, total }) =>
    exchange.apply(call, { type: "due", ready, attempt, defer, total }, null),
  );
  const runs = await dueRuns(db, SWEEP_LIMIT);
  await Promise.all([...applied, ...runs.map(({ run, cause }) => cancelOpenCalls(exchange, run, cause))]);
  if (calls.length === SWEEP_LIMIT || runs.length === SWEEP_LIMIT) return 0;
  return Math.min(LONGEST_SLEEP_MS, (await nextDue(db)) ?? LONGEST_SLEEP_MS);
}
