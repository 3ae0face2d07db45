/** @typedef {import("../events.mjs").Event} Event */
/** @typedef {import("../events.mjs").Seen} Seen */
/** @typedef {import("../events.mjs").Place} Place */

/**
 * @template {import("../events.mjs").Written["type"]} T
 * @typedef {import("../events.mjs").EventOf<T>} EventOf
 */

/**
 * Everything about one call.
 *
 * @typedef {object} CallHistory
 * @property {string} id
 * @property {EventOf<"opening">[]} openings
 * @property {EventOf<"opened">[]} opened
 * @property {EventOf<"row"> | undefined} row
 * @property {(Event & Seen)[]} seen Ends as anybody saw them; those of turns, too.
 * @property {EventOf<"start">[]} starts
 * @property {EventOf<"end">[]} ends
 * @property {EventOf<"deferring">[]} deferring
 * @property {EventOf<"deferred">[]} deferred
 * @property {EventOf<"canceling">[]} canceling
 * @property {EventOf<"canceled">[]} canceled
 * @property {EventOf<"answering">[]} answering
 * @property {EventOf<"answered">[]} answered
 * @property {EventOf<"waiting-at-end">[]} waitingAtEnd
 */

/**
 * Everything about one run.
 *
 * @typedef {object} RunHistory
 * @property {string} id
 * @property {EventOf<"run-created">[]} created
 * @property {EventOf<"run-ending">[]} ending
 * @property {EventOf<"run-ended">[]} ended
 * @property {EventOf<"run-row"> | undefined} row
 */

/**
 * @typedef {object} Index
 * @property {Map<string, CallHistory>} calls By id.
 * @property {Map<string, RunHistory>} runs By id.
 * @property {Map<string, EventOf<"opening">[]>} openings By run and key.
 * @property {Map<string, EventOf<"run-creating">>} creating By key.
 * @property {readonly Event[]} events
 * @property {(t: number) => number | null} databaseMs The database's clock at a time of the histories, if known.
 */

/**
 * @param {readonly Event[]} events
 * @returns {Index}
 */
export function indexHistory(events) {
  /** @type {Index} */
  const index = {
    calls: new Map(),
    runs: new Map(),
    openings: new Map(),
    creating: new Map(),
    events,
    databaseMs: databaseClock(events),
  };
  for (const event of events) file(index, event);
  // Which call an opening became is known by its acknowledgement, or else by the row.
  for (const call of index.calls.values()) {
    const named = call.row ?? call.opened[0];
    if (named !== undefined) call.openings = index.openings.get(subjectOf(named)) ?? [];
  }
  return index;
}

/**
 * @param {{ run: string, key: string }} named
 */
export const subjectOf = ({ run, key }) => `${run} ${key}`;

/**
 * @param {Index} index
 * @param {string} id
 * @returns {CallHistory}
 */
function callOf({ calls }, id) {
  let call = calls.get(id);
  if (call === undefined) {
    call = {
      ...{ id, row: undefined, openings: [], opened: [], seen: [], starts: [], ends: [], deferring: [] },
      ...{ deferred: [], canceling: [], canceled: [], answering: [], answered: [], waitingAtEnd: [] },
    };
    calls.set(id, call);
  }
  return call;
}

/**
 * @param {Index} index
 * @param {string} id
 * @returns {RunHistory}
 */
function runOf({ runs }, id) {
  let run = runs.get(id);
  if (run === undefined) {
    run = { id, created: [], ending: [], ended: [], row: undefined };
    runs.set(id, run);
  }
  return run;
}

/**
 * @param {Index} index
 * @param {Event} event
 */
function file(index, event) {
  switch (event.type) {
    case "opening": {
      const subject = subjectOf(event);
      const same = index.openings.get(subject);
      if (same === undefined) index.openings.set(subject, [event]);
      else same.push(event);
      return;
    }
    case "run-creating":
      index.creating.set(event.key, event);
      return;
    case "run-created":
      runOf(index, event.run).created.push(event);
      return;
    case "run-ending":
      runOf(index, event.run).ending.push(event);
      return;
    case "run-ended":
      runOf(index, event.run).ended.push(event);
      return;
    case "run-row":
      runOf(index, event.run).row = event;
      return;
    case "turn-settled":
      for (const outcome of event.outcomes) {
        callOf(index, outcome.id).seen.push({ ...event, ...outcome });
      }
      return;
    default:
      fileOfCall(index, event);
  }
}

/**
 * @param {Index} index
 * @param {Event} event
 */
function fileOfCall(index, event) {
  switch (event.type) {
    case "opened":
      return void callOf(index, event.id).opened.push(event);
    case "row":
      callOf(index, event.id).row = event;
      return;
    case "outcome":
    case "read":
      return void callOf(index, event.id).seen.push(event);
    case "start":
      return void callOf(index, event.id).starts.push(event);
    case "end":
      return void callOf(index, event.id).ends.push(event);
    case "deferring":
      return void callOf(index, event.id).deferring.push(event);
    case "deferred":
      return void callOf(index, event.id).deferred.push(event);
    case "canceling":
      return void callOf(index, event.id).canceling.push(event);
    case "canceled":
      return void callOf(index, event.id).canceled.push(event);
    case "answering":
      return void callOf(index, event.id).answering.push(event);
    case "answered":
      return void callOf(index, event.id).answered.push(event);
    case "waiting-at-end":
      return void callOf(index, event.id).waitingAtEnd.push(event);
  }
}

/**
 * @param {readonly Event[]} events
 * @returns {(t: number) => number | null}
 */
function databaseClock(events) {
  const clock = events.find((event) => event.type === "clock");
  if (clock === undefined) return () => null;
  // Written just after it was read.
  return (t) => clock.databaseMs + (t - clock.t) / 1_000;
}
