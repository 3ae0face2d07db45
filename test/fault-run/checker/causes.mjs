import { sumOf } from "../workload/tools.mjs";
import { historyOf } from "./ends.mjs";

/** @typedef {import("./history-index.mjs").Index} Index */
/** @typedef {import("./history-index.mjs").CallHistory} CallHistory */
/** @typedef {import("../events.mjs").EventOf<"row">} Row */
/** @typedef {import("../events.mjs").FailureSeen} FailureSeen */
/** @typedef {import("../checker.mjs").Report} Report */

/** Kinds of failures that leave it open how far a handler came. */
const UNKNOWN = new Set(["worker_lost", "attempt_timeout", "total_timeout", "canceled"]);

/**
 * Each end has a cause that somebody has written down: what a handler of its last attempt said, what was said
 * in its place, or what its policy allows the server to decide.
 *
 * @param {Index} index
 * @param {Report} report
 */
export function checkCauses(index, report) {
  for (const call of index.calls.values()) {
    const { row } = call;
    if (row === undefined) continue;
    const say = (/** @type {string} */ rule, /** @type {string} */ message) => {
      report(rule, `call ${call.id} (${row.tool}): ${message}`, historyOf(call));
    };
    if (row.state === "succeeded") checkResult(call, row, say);
    else if (row.failure !== null) {
      checkUnknown(call, row, row.failure, say);
      if (row.state === "canceled") checkCanceled(index, call, row, say);
      else checkFailure(call, row, row.failure, say);
    }
  }
}

/**
 * @param {CallHistory} call
 * @param {Row} row
 * @param {(rule: string, message: string) => void} say
 */
function checkResult(call, { resultJson, attempt, inputJson }, say) {
  const saidByHandler = call.ends.some(
    (end) => end.attempt === attempt && end.said?.resultJson === resultJson,
  );
  const saidInItsPlace = call.answering.some(({ said }) => said.resultJson === resultJson);
  if (!saidByHandler && !saidInItsPlace) {
    const of = call.ends.find(({ said }) => said?.resultJson === resultJson);
    const why =
      of === undefined ? "nobody has said" : `was said by attempt ${of.attempt}, not by its last, ${attempt}`;
    say("results are what was said", `its result ${resultJson ?? ""} ${why}`);
  } else if (resultJson !== null && JSON.parse(resultJson).sum !== sumOf(inputJson)) {
    say("results are what was said", `its result ${resultJson} is that of another input`);
  }
}

/**
 * @param {Index} index
 * @param {CallHistory} call
 * @param {Row} row
 * @param {(rule: string, message: string) => void} say
 */
function checkCanceled(index, call, row, say) {
  const run = index.runs.get(row.run);
  const mayExpire = run?.created.some(({ key }) => (index.creating.get(key)?.ttlMs ?? null) !== null);
  if (call.canceling.length > 0 || (run?.ending.length ?? 0) > 0 || mayExpire) return;
  say("ends have a cause", "it is canceled, and nobody has canceled it or ended its run");
}

/**
 * @param {CallHistory} call
 * @param {Row} row
 * @param {FailureSeen} failure
 * @param {(rule: string, message: string) => void} say
 */
function checkFailure(call, row, failure, say) {
  const bounds = call.openings[0]?.bounds;
  const { kind, message, retryable } = failure;
  switch (kind) {
    case "tool":
    case "exception": {
      const byHandler = call.ends.some(
        ({ attempt, said }) =>
          attempt === row.attempt && said?.failure?.kind === kind && said.failure.message === message,
      );
      const inItsPlace = call.answering.some(({ said }) => said.failure?.message === message);
      if (!byHandler && !inItsPlace)
        say("results are what was said", `its failure "${message}" nobody has said`);
      break;
    }
    case "worker_lost":
      break;
    case "attempt_timeout":
      if (bounds?.attemptMs === null) say("ends have a cause", "an attempt timed out that had no limit");
      break;
    case "total_timeout":
      if (bounds?.totalMs === null) say("ends have a cause", "it timed out and had no limit");
      break;
    case "defer_timeout":
      if (bounds?.deferMs === null) say("ends have a cause", "its deferral timed out and had no limit");
      break;
    default:
      say("ends have a cause", `no handler here brings about ${kind} ("${message}")`);
  }
  const again = retryable || kind === "worker_lost" || kind === "attempt_timeout";
  if (again && row.mode === "retry" && row.spent < row.maxAttempts) {
    const left = `${row.spent} of ${row.maxAttempts} attempts were spent`;
    say("attempts within policy", `it failed for good by a failure to be retried, and ${left}`);
  }
}

/**
 * @param {CallHistory} call
 * @param {Row} row
 * @param {FailureSeen} failure
 * @param {(rule: string, message: string) => void} say
 */
function checkUnknown(call, row, { kind, outcomeUnknown }, say) {
  const may = UNKNOWN.has(kind);
  if (outcomeUnknown && !may)
    say("unknown only where it is", `its outcome is unknown, which ${kind} never is`);
  if (outcomeUnknown && may && row.spent === 0) {
    say("unknown only where it is", "its outcome is unknown, and no attempt was spent");
  }
  if (!outcomeUnknown && may && call.starts.length > 0) {
    say("unknown only where it is", `a handler has started, and its ${kind} claims to know the outcome`);
  }
}
