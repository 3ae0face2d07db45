/**
 * What was promised, and what was seen of it.
 *
 * @typedef {object} Checked
 * @property {string} promise
 * @property {boolean} kept
 * @property {string} seen
 */

/** Keeps the score. The demo succeeds when every promise was kept, and there were some. */
export class Promises {
  /** @type {Checked[]} */
  #checked = [];
  #terminal;

  /** @param {import("./terminal.mjs").Terminal} terminal */
  constructor(terminal) {
    this.#terminal = terminal;
  }

  /**
   * Notes a promise as kept or broken, and shows it; the story goes on in any case.
   *
   * @param {string} promise
   * @param {string} seen
   * @param {Readonly<Record<string, boolean>>} facts Each must be true; those that are not are named.
   */
  check(promise, seen, facts) {
    const wrong = Object.keys(facts).filter((fact) => facts[fact] !== true);
    const kept = wrong.length === 0;
    this.#note({ promise, kept, seen: kept ? seen : `${seen}. But not so: ${wrong.join("; ")}` });
  }

  /**
   * Notes a promise as broken, and shows it.
   *
   * @param {string} promise
   * @param {string} seen
   */
  broken(promise, seen) {
    this.#note({ promise, kept: false, seen });
  }

  /** @param {Checked} checked */
  #note(checked) {
    this.#checked.push(checked);
    this.#terminal.verdict(checked.kept, checked.promise, checked.seen);
  }

  /** @returns {readonly Checked[]} */
  get checked() {
    return this.#checked;
  }

  /** @returns {boolean} */
  get allKept() {
    return this.#checked.length > 0 && this.#checked.every(({ kept }) => kept);
  }

  /**
   * Shows all of them again, in short.
   *
   * @param {string} took
   */
  summarize(took) {
    this.#terminal.title("What was promised, and what was seen");
    for (const { kept, promise, seen } of this.#checked) this.#terminal.verdict(kept, promise, seen);
    const kept = this.#checked.filter((checked) => checked.kept).length;
    this.#terminal.title(`${kept} of ${this.#checked.length} promises kept, in ${took}.`);
  }
}
