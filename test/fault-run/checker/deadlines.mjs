import { historyOf } from "./ends.mjs";

/** @typedef {import("./history-index.mjs").Index} Index */
/** @typedef {import("./history-index.mjs").CallHistory} CallHistory */
/** @typedef {import("../events.mjs").EventOf<"row">} Row */
/** @typedef {import("../checker.mjs").Report} Report */

/** Times are rounded on their way, and clocks read a moment after one another. */
const SLACK_MS = 20;

/**
 * No limit passes early, whatever the nodes' clocks say: all times are the database's.
 *
 * @param {Index} index
 * @param {Report} report
 */
export function checkDeadlines(index, report) {
  for (const call of index.calls.values()) {
    const { row, openings } = call;
    const bounds = openings[0]?.bounds;
    if (row === undefined || bounds === undefined) continue;
    const early = (
      /** @type {string} */ what,
      /** @type {number} */ tookMs,
      /** @type {number} */ limitMs,
    ) => {
      if (tookMs >= limitMs - SLACK_MS) return;
      const message = `call ${call.id}: its ${what} passed after ${Math.round(tookMs)} ms; its limit is ${limitMs} ms`;
      report("no limit passes early", message, historyOf(call));
    };
    for (const { kind, claimedAt, endedAt } of row.attempts) {
      if (kind === "attempt_timeout" && bounds.attemptMs !== null && claimedAt !== null) {
        early("attempt timeout", endedAt - claimedAt, bounds.attemptMs);
      }
    }
    if (row.endedAt === null) continue;
    if (row.failure?.kind === "total_timeout" && bounds.totalMs !== null) {
      early("total timeout", row.endedAt - row.openedAt, bounds.totalMs);
    }
    if (row.failure?.kind === "defer_timeout" && bounds.deferMs !== null) {
      const since = deferredSince(index, call, row);
      if (since !== null) early("defer timeout", row.endedAt - since, bounds.deferMs);
    }
  }
}

/**
 * When the last attempt asked to be deferred, by the database's clock.
 *
 * @param {Index} index
 * @param {CallHistory} call
 * @param {Row} row
 */
function deferredSince(index, { deferring }, { attempt }) {
  const asked = deferring.find((event) => event.attempt === attempt);
  return asked === undefined ? null : index.databaseMs(asked.t);
}
