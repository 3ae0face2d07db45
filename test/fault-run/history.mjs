import { closeSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";

/** @typedef {import("./events.mjs").Written} Written */
/** @typedef {import("./events.mjs").Event} Event */

const ENDING = ".history.jsonl";

/** Microseconds of the machine's monotonic clock: the same in every process, whatever its other clock says. */
export const nowUs = () => Number(process.hrtime.bigint() / 1_000n);

/**
 * A process's own history: one JSON line an event, written before the process goes on, so that no kill can
 * lose what it has done since.
 */
export class History {
  #file;
  #process;

  /**
   * @param {string} folder
   * @param {string} name The process's, through all its lives.
   * @param {number} life From 1.
   */
  constructor(folder, name, life) {
    this.#file = openSync(historyFile(folder, name), "a");
    this.#process = `${name}#${life}`;
    // An earlier life may have been killed in the middle of a line.
    if (life > 1) writeSync(this.#file, "\n");
  }

  /**
   * @param {Written} event
   * @returns {number} Its time.
   */
  write(event) {
    const t = nowUs();
    writeSync(this.#file, `${JSON.stringify({ t, p: this.#process, ...event })}\n`);
    return t;
  }

  close() {
    closeSync(this.#file);
  }
}

/**
 * @param {string} folder
 * @param {string} name
 */
export const historyFile = (folder, name) => join(folder, name + ENDING);

/**
 * Reads one process's history; nothing when there is none. Lines that a kill cut short are left out.
 *
 * @param {string} folder
 * @param {string} name
 * @returns {Event[]}
 */
export function readHistory(folder, name) {
  /** @type {string} */
  let text;
  try {
    text = readFileSync(historyFile(folder, name), "utf8");
  } catch {
    return [];
  }
  /** @type {Event[]} */
  const events = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (line === "") continue;
    try {
      events.push({ ...JSON.parse(line), at: `${name}${ENDING}:${index + 1}` });
    } catch {
      // Cut short by a kill: whatever it would have told was never said to anybody.
    }
  }
  return events;
}

/**
 * Reads all histories of a folder, each in its own order.
 *
 * @param {string} folder
 * @returns {Event[]}
 */
export function readHistories(folder) {
  const names = readdirSync(folder)
    .filter((file) => file.endsWith(ENDING))
    .map((file) => file.slice(0, -ENDING.length))
    .sort();
  return names.flatMap((name) => readHistory(folder, name));
}
