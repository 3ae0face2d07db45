/** @typedef {import("./history-index.mjs").Index} Index */
/** @typedef {import("../events.mjs").EventOf<"refused">} Refused */
/** @typedef {import("../checker.mjs").Report} Report */

/** What may be refused for which reasons, in this workload; a server that is away is waited for. */
const ALLOWED = new Map([
  ["open", new Set(["RUN_ENDED"])],
  ["answer", new Set(["CALL_ENDED", "STALE_ATTEMPT", "TOKEN_INVALID"])],
  ["defer", new Set(["CLAIM_LOST"])],
]);

/**
 * Nothing is refused that had to be done, and nobody sees an error that is the server's own.
 *
 * @param {Index} index
 * @param {Report} report
 */
export function checkRefusals(index, report) {
  for (const event of index.events) {
    if (event.type !== "refused") continue;
    const { what, subject, reason, message } = event;
    if (!(ALLOWED.get(what)?.has(reason) ?? false)) {
      report("only what may be is refused", `${what} ${subject}: ${reason}: ${message}`, [event]);
      continue;
    }
    if (what === "open") checkRunEnded(index, event, report);
    if (reason === "TOKEN_INVALID") checkToken(index, event, report);
  }
}

/**
 * @param {Index} index
 * @param {Refused} event
 * @param {Report} report
 */
function checkRunEnded(index, event, report) {
  const [id = ""] = event.subject.split(" ");
  const run = index.runs.get(id);
  const mayExpire =
    run?.created.some(({ key }) => (index.creating.get(key)?.ttlMs ?? null) !== null) ?? false;
  if (mayExpire || run?.ending.some(({ t }) => t < event.t)) return;
  report("only what may be is refused", `run ${id} is said to have ended, and nobody has ended it`, [event]);
}

/**
 * @param {Index} index
 * @param {Refused} event
 * @param {Report} report
 */
function checkToken(index, event, report) {
  const call = index.calls.get(event.subject);
  const deferred = call?.deferred.find(({ attempt, t }) => attempt === event.attempt && t < event.t);
  if (deferred === undefined) return;
  const message = `call ${event.subject}: the token of attempt ${deferred.attempt} was acknowledged, and is refused`;
  report("acknowledged is kept", message, [deferred, event, call?.row]);
}
