import type { Call } from "../core/call.js";
import type { CallEvent, CancelCause } from "../core/event.js";
import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";
import { isUuid } from "../core/name.js";
import type { Scope } from "../core/scope.js";
import { openCallsOfRun } from "../store/calls-read.js";
import { endRun as markEnded, finishRun, type RunRecord } from "../store/runs.js";
import type { Exchange } from "./exchange.js";
import { waitAtMost } from "./run-endings.js";

/** Calls that are canceled at once. */
const CHUNK = 1_000;
/** How long whoever ends a run waits for its calls: a client that gets no answer asks again. */
const ANSWER_WITHIN_MS = 5_000;

/**
 * Ends a run and cancels its open calls: from then on it takes no call, and none of its calls is claimed. A run with
 * very many open calls is answered for after 5 s, while the last of them are still being canceled. What is left undone when the node dies is done by the next sweep of
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
  await waitAtMost(ANSWER_WITHIN_MS, cancelOpenCalls(exchange, run, "run_ended"));
  return run;
}

/**
 * Cancels the open calls of a run that has been marked as ended, in chunks, and then takes the run out of the
 * due rows.
 *
 * @throws TrunklineError UNAVAILABLE where the database cannot be reached; calling again goes on
 */
export function cancelOpenCalls(
  exchange: Exchange,
  run: Pick<RunRecord, "projectId" | "id">,
  cause: CancelCause,
): Promise<void> {
  return exchange.runEndings.join(run.id, (isStopped) => cancelAll(exchange, run, cause, isStopped));
}

async function cancelAll(
  exchange: Exchange,
  run: Pick<RunRecord, "projectId" | "id">,
  cause: CancelCause,
  isStopped: () => boolean,
): Promise<void> {
  exchange.runs.forget(run.id);
  exchange.watchers.runChanged(run.id);
  // From the last one on: looking for open calls among those that are canceled already takes longer each time.
  for (let afterSeq = 0; ;) {
    const calls = await openCallsOfRun(exchange.db, run.projectId, run.id, CHUNK, afterSeq);
    await Promise.all(calls.map((call) => cancelCall(exchange, call, cause)));
    const last = calls.at(-1);
    if (last === undefined || calls.length < CHUNK) break;
    if (isStopped()) return;
    afterSeq = last.seq;
  }
  // A call whose open was already on its way when the run ended is found by the sweep, for which the run stays due.
  await finishRun(exchange.db, run.projectId, run.id);
  exchange.watchers.runChanged(run.id);
}

async function cancelCall(exchange: Exchange, call: Call, cause: CancelCause): Promise<void> {
  const event: CallEvent = { type: "cancel", cause };
  // Only what has changed since it was read is read again.
  if ((await exchange.applyAsRead(call, event)) === undefined) await exchange.apply(call, event, null);
}
