/** @typedef {import("./history-index.mjs").Index} Index */
/** @typedef {import("./history-index.mjs").CallHistory} CallHistory */
/** @typedef {import("../events.mjs").EventOf<"turn-settled">} Settled */
/** @typedef {import("../checker.mjs").Report} Report */

/** By which two clocks of one machine may differ when one is read a moment after the other. */
const SLACK_MS = 50;

/**
 * A turn is settled when none of its calls is open, and not before; its outcomes come once each, in order.
 *
 * @param {Index} index
 * @param {Report} report
 */
export function checkTurns(index, report) {
  const turns = callsByTurn(index);
  for (const event of index.events) {
    if (event.type !== "turn-settled") continue;
    const calls = turns.get(`${event.run} ${event.turn}`) ?? [];
    checkSettled(index, event, calls, report);
  }
}

/** @param {Index} index */
function callsByTurn(index) {
  /** @type {Map<string, CallHistory[]>} */
  const turns = new Map();
  for (const call of index.calls.values()) {
    const { row } = call;
    if (row === undefined || row.turn === null) continue;
    const name = `${row.run} ${row.turn}`;
    const calls = turns.get(name);
    if (calls === undefined) turns.set(name, [call]);
    else calls.push(call);
  }
  return turns;
}

/**
 * @param {Index} index
 * @param {Settled} settled
 * @param {readonly CallHistory[]} calls
 * @param {Report} report
 */
function checkSettled(index, settled, calls, report) {
  const name = `turn ${settled.turn} of run ${settled.run}`;
  const ids = settled.outcomes.map(({ id }) => id);
  const seqs = ids.map((id) => Number(id.slice(id.lastIndexOf("/") + 1)));
  if (seqs.some((seq, at) => at > 0 && seq <= (seqs[at - 1] ?? 0))) {
    report("turns settle in order", `${name}: its outcomes came as ${seqs.join(", ")}`, [settled]);
  }
  const nowMs = index.databaseMs(settled.t);
  for (const { id, opened, row } of calls) {
    // What was opened during the wait may have been missed, or have reopened the turn after it.
    const wasOpen = opened.some(({ t }) => t < settled.since);
    if (wasOpen && !ids.includes(id)) {
      report("turns settle when all is over", `${name}: ${id} was open, and is missing`, [
        ...opened,
        settled,
        row,
      ]);
    }
    const endedAt = row?.endedAt ?? null;
    if (ids.includes(id) && nowMs !== null && (endedAt === null || endedAt > nowMs + SLACK_MS)) {
      report("turns settle when all is over", `${name}: ${id} ended after it was settled`, [
        ...opened,
        settled,
        row,
      ]);
    }
  }
  const own = new Set(calls.map(({ id }) => id));
  for (const id of ids) {
    if (!own.has(id))
      report("turns settle when all is over", `${name}: ${id} is not one of its calls`, [settled]);
  }
}
