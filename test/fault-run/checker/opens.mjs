import { subjectOf } from "./history-index.mjs";

/** @typedef {import("./history-index.mjs").Index} Index */
/** @typedef {import("./history-index.mjs").CallHistory} CallHistory */
/** @typedef {import("../checker.mjs").Report} Report */

/**
 * What was acknowledged exists, as it was opened, and nothing else does.
 *
 * @param {Index} index
 * @param {Report} report
 */
export function checkOpens(index, report) {
  /** @type {Map<string, import("../events.mjs").EventOf<"opened">>} */
  const ids = new Map();
  for (const call of index.calls.values()) {
    checkStored(call, report);
    for (const opened of call.opened) {
      const first = ids.get(subjectOf(opened));
      if (first === undefined) ids.set(subjectOf(opened), opened);
      else if (first.id !== opened.id) {
        const message = `key ${opened.key} of run ${opened.run} names two calls, ${first.id} and ${opened.id}`;
        report("one key, one call", message, [first, opened]);
      }
    }
  }
  for (const run of index.runs.values()) {
    const [created] = run.created;
    const [ended] = run.ended;
    if (created !== undefined && run.row === undefined) {
      report("acknowledged is kept", `run ${run.id} was made and is gone`, [created]);
    }
    if (ended !== undefined && run.row?.state !== "ended") {
      report("acknowledged is kept", `run ${run.id} was ended and is ${run.row?.state ?? "gone"}`, [
        ended,
        run.row,
      ]);
    }
  }
}

/**
 * @param {CallHistory} call
 * @param {Report} report
 */
function checkStored({ id, row, opened, openings }, report) {
  const [acknowledged] = opened;
  const [opening] = openings;
  if (row === undefined) {
    if (acknowledged !== undefined) {
      report("acknowledged is kept", `call ${id} was opened and is gone`, [opening, ...opened]);
    }
    return;
  }
  if (opening === undefined) {
    report("nothing comes from nowhere", `call ${id}: nobody has opened it`, [row]);
    return;
  }
  const { bounds } = opening;
  const differing = [
    ["tool", opening.tool, row.tool],
    ["turn", opening.turn, row.turn],
    ["input", opening.inputJson, row.inputJson],
    ["mode", bounds.mode, row.mode],
    ["executor", opening.client ? "client" : "worker", row.executor],
    ["max_attempts", bounds.maxAttempts, row.maxAttempts],
    ["run", opening.run, row.run],
    ["run in its id", `${opening.run}/`, row.id.slice(0, opening.run.length + 1)],
  ].filter(([, asked, stored]) => asked !== stored);
  for (const [what, asked, stored] of differing) {
    const message = `call ${id}: ${what} is ${String(stored)}; it was opened with ${String(asked)}`;
    report("stored as opened", message, [opening, acknowledged, row]);
  }
}
