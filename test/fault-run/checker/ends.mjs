/** @typedef {import("./history-index.mjs").Index} Index */
/** @typedef {import("./history-index.mjs").CallHistory} CallHistory */
/** @typedef {import("../events.mjs").Seen} Seen */
/** @typedef {import("../checker.mjs").Report} Report */

const ENDED = new Set(["succeeded", "failed", "canceled"]);
/** An instant travels in microseconds and in milliseconds. */
const ROUNDING_MS = 1;

/** @param {string} state */
export const isEnded = (state) => ENDED.has(state);

/**
 * Every call has ended, everybody saw the same end of it, and whoever waited was told.
 *
 * @param {Index} index
 * @param {Report} report
 */
export function checkEnds(index, report) {
  for (const call of index.calls.values()) {
    const { id, row, opened } = call;
    if (row === undefined) continue;
    if (!isEnded(row.state)) {
      report("every call ends", `call ${id} (${row.tool}) is still ${row.state}`, [...historyOf(call)]);
      continue;
    }
    for (const seen of call.seen) {
      const differs = difference(seen, row);
      if (differs !== null) {
        report("what has ended never changes", `call ${id}: ${differs}`, [seen, row]);
      }
    }
    for (const canceled of call.canceled) {
      if (canceled.state === row.state) continue;
      const message = `call ${id}: its canceling was answered with ${canceled.state}, and it is ${row.state}`;
      report("what has ended never changes", message, [canceled, row]);
    }
    if (opened.length > 0 && !call.seen.some(({ type }) => type === "outcome")) {
      report("whoever waits is told", `call ${id} (${row.tool}) has ended and its harness never heard`, [
        opened[0],
        row,
      ]);
    }
  }
  for (const event of index.events) {
    if (event.type === "undelivered")
      report("whoever waits is told", `still waiting: ${event.subject}`, [event]);
    if (event.type === "crashed") {
      report("programs do not end by themselves", `${event.name}: ${event.how}`, [event]);
    }
  }
}

/**
 * @param {Seen} seen
 * @param {Seen} row
 * @returns {string | null} What differs, if anything.
 */
function difference(seen, row) {
  if (seen.state !== row.state) return `it was seen ${seen.state}, and is ${row.state}`;
  if (seen.attempt !== row.attempt) return `its attempt was seen as ${seen.attempt}, and is ${row.attempt}`;
  if (seen.resultJson !== row.resultJson) {
    return `its result was seen as ${seen.resultJson ?? "none"}, and is ${row.resultJson ?? "none"}`;
  }
  const failures = [seen.failure, row.failure].map(failureText);
  if (failures[0] !== failures[1]) {
    return `its failure was seen as ${failures[0] ?? "none"}, and is ${failures[1] ?? "none"}`;
  }
  if (Math.abs((seen.endedAt ?? 0) - (row.endedAt ?? 0)) > ROUNDING_MS) {
    return `its end was seen at ${seen.endedAt ?? "none"}, and is at ${row.endedAt ?? "none"}`;
  }
  return null;
}

/** @param {import("../events.mjs").FailureSeen | null} failure */
function failureText(failure) {
  if (failure === null) return null;
  const { kind, message, dataJson, retryable, outcomeUnknown } = failure;
  return JSON.stringify([kind, message, dataJson, retryable, outcomeUnknown]);
}

/**
 * What happened to a call, without what is told of its end.
 *
 * @param {CallHistory} call
 */
export function historyOf(call) {
  return [
    ...call.openings.slice(0, 1),
    ...call.opened.slice(0, 1),
    ...call.starts,
    ...call.ends,
    ...call.deferring,
    ...call.deferred,
    ...call.canceling,
    ...call.canceled,
    ...call.answering,
    ...call.answered,
    ...(call.row === undefined ? [] : [call.row]),
  ];
}
