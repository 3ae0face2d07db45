import type { Exchange } from "../exchange/exchange.js";
import { cancelOpenCalls } from "../exchange/run-end.js";
import { waitAtMost } from "../exchange/run-endings.js";
import { nextDue, takeDue } from "../store/due.js";
import { dueRuns } from "../store/runs.js";

const SWEEP_LIMIT = 500;
/** How long a sweep waits for the calls of ended runs, which are canceled on after it. */
const RUNS_WAIT_MS = 1_000;
/** The longest sleep between two sweeps: what another node sets is found by then. */
export const LONGEST_SLEEP_MS = 2_000;

/**
 * Brings about what is due by the database's clock: ends of backoffs, timeouts, TTLs of runs, and the
 * canceling of calls in runs that have ended. It looks first, since mostly nothing is.
 *
 * @returns how long nothing will be due, in milliseconds; 0 when something was.
 */
export async function sweepDue(exchange: Exchange): Promise<number> {
  const { callsMs, runsMs } = await nextDue(exchange.db);
  const sweeps: Promise<void>[] = [];
  if (callsMs === 0) sweeps.push(sweepCalls(exchange));
  if (runsMs === 0) sweeps.push(sweepRuns(exchange));
  await Promise.all(sweeps);
  return Math.min(LONGEST_SLEEP_MS, callsMs, runsMs);
}

async function sweepCalls(exchange: Exchange): Promise<void> {
  const calls = await takeDue(exchange.db, SWEEP_LIMIT);
  await Promise.all(
    calls.map(({ call, ready, attempt, defer, total }) =>
      exchange.applyAsRead(call, { type: "due", ready, attempt, defer, total }),
    ),
  );
}

async function sweepRuns(exchange: Exchange): Promise<void> {
  const runs = await dueRuns(exchange.db, SWEEP_LIMIT);
  const ends = runs.map(({ run, cause }) => cancelOpenCalls(exchange, run, cause));
  // The end of a run with very many calls must not hold up everything else that is due.
  await waitAtMost(RUNS_WAIT_MS, Promise.all(ends));
}
