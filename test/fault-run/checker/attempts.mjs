import { historyOf } from "./ends.mjs";

/** @typedef {import("./history-index.mjs").Index} Index */
/** @typedef {import("./history-index.mjs").CallHistory} CallHistory */
/** @typedef {import("../events.mjs").EventOf<"row">} Row */
/** @typedef {import("../events.mjs").EventOf<"start">} Start */
/** @typedef {import("../checker.mjs").Report} Report */

/**
 * Handlers start as often as the policy allows, each attempt at most once, always under the same key; and what
 * was handed over stays handed over.
 *
 * @param {Index} index
 * @param {Report} report
 */
export function checkAttempts(index, report) {
  for (const call of index.calls.values()) {
    const say = (/** @type {string} */ rule, /** @type {string} */ message) => {
      report(rule, `call ${call.id}: ${message}`, historyOf(call));
    };
    const { row, starts } = call;
    if (row === undefined) {
      if (starts.length > 0)
        say("nothing comes from nowhere", "a handler was started for it, and it does not exist");
      continue;
    }
    checkStarts(call, row, say);
    for (const start of starts) checkStart(start, row, say);
    checkDeferrals(call, row, say);
  }
}

/**
 * @param {CallHistory} call
 * @param {Row} row
 * @param {(rule: string, message: string) => void} say
 */
function checkStarts({ starts }, row, say) {
  const { mode, spent, attempt, maxAttempts } = row;
  const numbers = starts.map((start) => start.attempt);
  if (mode === "at_most_once" && starts.length > 1) {
    say("at most once", `its handler was started ${starts.length} times`);
  }
  if (new Set(numbers).size < numbers.length) {
    say("one start an attempt", `attempts started: ${numbers.join(", ")}`);
  }
  if (starts.length > maxAttempts) {
    say("attempts within policy", `${starts.length} starts; allowed are ${maxAttempts}`);
  }
  if (new Set(numbers).size > spent) {
    say("attempts are counted", `${starts.length} starts, and only ${spent} were counted`);
  }
  if (Math.max(0, ...numbers) > attempt) {
    say("attempts are counted", `attempt ${Math.max(...numbers)} was started, and its last is ${attempt}`);
  }
  if (spent > maxAttempts || spent > attempt) {
    say("attempts within policy", `${spent} spent, of ${attempt} attempts; allowed are ${maxAttempts}`);
  }
}

/**
 * @param {Start} start
 * @param {Row} row
 * @param {(rule: string, message: string) => void} say
 */
function checkStart(start, row, say) {
  if (start.id !== start.call) {
    say(
      "one idempotency key",
      `attempt ${start.attempt} of ${start.call} had the idempotency key ${start.id}`,
    );
  }
  if (start.tool !== row.tool || start.inputJson !== row.inputJson) {
    say("handlers get what was opened", `attempt ${start.attempt} got ${start.tool} ${start.inputJson}`);
  }
  if (row.executor === "client") say("handlers get what was opened", "a client call was given to a worker");
}

/**
 * A deferral that was acknowledged ends its attempt's lease: nothing but its answer, its timeout, or a failure
 * that somebody said begins another one.
 *
 * @param {CallHistory} call
 * @param {Row} row
 * @param {(rule: string, message: string) => void} say
 */
function checkDeferrals(call, row, say) {
  const { deferred, starts, answering, openings, waitingAtEnd } = call;
  if (deferred.length === 0) return;
  const mayRetry =
    answering.some(({ said }) => said.failure?.retryable === true) || openings[0]?.bounds.attemptMs !== null;
  const attempt = Math.max(...deferred.map((event) => event.attempt));
  const later = starts.filter((start) => start.attempt > attempt);
  if (!mayRetry && (later.length > 0 || row.attempt > attempt)) {
    say("a deferral is kept", `attempt ${attempt} was deferred, and attempt ${row.attempt} was made`);
  }
  if (row.attempt === attempt && row.failure?.kind === "worker_lost") {
    say("a deferral is kept", `attempt ${attempt} was deferred, and is said to be lost with its worker`);
  }
  for (const { state } of waitingAtEnd) {
    if (state !== "deferred" && !mayRetry)
      say("a deferral is kept", `it was deferred, and was found ${state}`);
  }
}
