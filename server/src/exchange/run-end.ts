import type { CancelCause } from "../core/event.js";
import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";
import { isUuid } from "../core/name.js";
import type { Scope } from "../core/scope.js";
import { openCallsOfRun } from "../store/calls-read.js";
import { endRun as markEnded, finishRun, type RunRecord } from "../store/runs.js";
import type { Exchange } from "./exchange.js";

/** Calls that are canceled at once. */
const CHUNK = 1_000;

/**
 * Ends a run and cancels its open calls. What is left undone when the node dies is done by the next sweep of
 * any node: an ended run with open calls is a due row. Again is OK.
 *
 * @throws TrunklineError NOT_FOUND where the run is missing or not of this scope
 */
export async function endRun(exchange: Exchange, scope: Scope, id: string): Promise<RunRecord> {
  const known = isUuid(id) ? await exchange.runs.get(scope, id) : undefined;
  const run = known === undefined ? null : await markEnded(exchange.db, scope.projectId, id);
  if (run === null) {
    throw new TrunklineError("NOT_FOUND", `there is no run ${quoted(id, 80)}`, {
      metadata: { field: "run_id" },
    });
  }
  await cancelOpenCalls(exchange, run, "run_ended");
  return run;
}

/**
 * Cancels the open calls of a run that has been marked as ended, in chunks, and then takes the run out of the
 * due rows.
 *
 * @throws TrunklineError UNAVAILABLE where the database cannot be reached; calling again goes on
 */
export async function cancelOpenCalls(
  exchange: Exchange,
  run: Pick<RunRecord, "projectId" | "id">,
  cause: CancelCause,
): Promise<void> {
  exchange.runs.forget(run.id);
  for (;;) {
    const calls = await openCallsOfRun(exchange.db, run.projectId, run.id, CHUNK);
    await Promise.all(calls.map((call) => exchange.apply(call, { type: "cancel", cause }, null)));
    if (calls.length < CHUNK) break;
  }
  // A call whose open was already on its way when the run ended is found by the sweep, for which the run stays due.
  await finishRun(exchange.db, run.projectId, run.id);
}
