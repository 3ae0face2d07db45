import { checkAnswers } from "./checker/answers.mjs";
import { checkAttempts } from "./checker/attempts.mjs";
import { checkCauses } from "./checker/causes.mjs";
import { checkCredit } from "./checker/credit.mjs";
import { checkDeadlines } from "./checker/deadlines.mjs";
import { checkEnds } from "./checker/ends.mjs";
import { indexHistory } from "./checker/history-index.mjs";
import { checkOpens } from "./checker/opens.mjs";
import { checkRefusals } from "./checker/refusals.mjs";
import { checkTurns } from "./checker/turns.mjs";

/** @typedef {import("./events.mjs").Event} Event */

/**
 * Something that must not be.
 *
 * @typedef {object} Violation
 * @property {string} rule
 * @property {string} message
 * @property {readonly Event[]} events What shows it.
 */

/** @typedef {(rule: string, message: string, events: readonly (Event | undefined)[]) => void} Report */

const RULES = [
  checkOpens,
  checkEnds,
  checkCauses,
  checkAttempts,
  checkAnswers,
  checkTurns,
  checkCredit,
  checkDeadlines,
  checkRefusals,
];

/**
 * Judges the merged histories of a fault run: what was promised to whom, against what became of it. It knows
 * nothing of how the server works; each process's events are in its own order.
 *
 * @param {readonly Event[]} events
 * @returns {Violation[]}
 */
export function check(events) {
  const index = indexHistory(events);
  /** @type {Violation[]} */
  const violations = [];
  /** @type {Report} */
  const report = (rule, message, shown) => {
    const known = shown.filter((event) => event !== undefined);
    violations.push({ rule, message, events: [...known].sort((a, b) => a.t - b.t) });
  };
  for (const rule of RULES) rule(index, report);
  return violations;
}
