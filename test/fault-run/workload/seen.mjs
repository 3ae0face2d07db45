/**
 * How a call ended, as the SDK told it.
 *
 * @param {import("@trunkline/sdk").Outcome} outcome
 * @returns {import("../events.mjs").Seen}
 */
export function seenOutcome({ callId, state, attempt, resultJson, error, endedAt }) {
  return {
    id: callId,
    state,
    attempt,
    resultJson: resultJson ?? null,
    failure: error === undefined ? null : seenFailure(error),
    endedAt: endedAt?.getTime() ?? null,
  };
}

/**
 * A call, as the SDK told it.
 *
 * @param {import("@trunkline/sdk").Call} call
 * @returns {import("../events.mjs").Seen}
 */
export function seenCall({ id, state, attempt, resultJson, error, endedAt }) {
  return {
    ...{ id, state, attempt },
    resultJson: resultJson ?? null,
    failure: error === undefined ? null : seenFailure(error),
    endedAt: endedAt?.getTime() ?? null,
  };
}

/**
 * @param {import("@trunkline/sdk").Failure} failure
 * @returns {import("../events.mjs").FailureSeen}
 */
function seenFailure({ kind, message, dataJson, retryable, outcomeUnknown }) {
  return { kind, message, dataJson: dataJson ?? null, retryable, outcomeUnknown };
}
