import { historyOf } from "./ends.mjs";

/** @typedef {import("./history-index.mjs").Index} Index */
/** @typedef {import("../events.mjs").EventOf<"row">} Row */
/** @typedef {import("../events.mjs").EventOf<"answered">} Answered */
/** @typedef {import("../checker.mjs").Report} Report */

/**
 * An answer that was acknowledged is how its call ended.
 *
 * @param {Index} index
 * @param {Report} report
 */
export function checkAnswers(index, report) {
  for (const call of index.calls.values()) {
    const { row } = call;
    if (row === undefined) continue;
    for (const answered of call.answered) {
      const why = difference(answered, row);
      if (why === null) continue;
      report("acknowledged is kept", `call ${call.id}: ${why}`, [answered, ...historyOf(call)]);
    }
  }
}

/**
 * @param {Answered} answered
 * @param {Row} row
 * @returns {string | null}
 */
function difference({ said, state }, row) {
  const { failure } = said;
  if (failure === undefined) {
    if (row.state === "succeeded" && row.resultJson === said.resultJson) return null;
    return `the answer ${said.resultJson} was acknowledged, and it is ${row.state} with ${row.resultJson ?? "no result"}`;
  }
  // One that asks for another attempt ends the call only when there is none left.
  if (failure.retryable && state !== "failed") return null;
  if (row.state === "failed" && row.failure?.message === failure.message) return null;
  return `the failure "${failure.message}" was acknowledged, and it is ${row.state}`;
}
