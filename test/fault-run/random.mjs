import { createHash } from "node:crypto";

/** Random numbers that a seed repeats (sfc32). */
export class Random {
  #seed;
  #state;

  /** @param {string} seed Any text. */
  constructor(seed) {
    const digest = createHash("sha256").update(seed).digest();
    this.#seed = seed;
    this.#state = new Uint32Array([0, 4, 8, 12].map((at) => digest.readUInt32LE(at)));
  }

  /**
   * Numbers of their own for one purpose, so that what is drawn for another does not shift them.
   *
   * @param {string} purpose
   */
  fork(purpose) {
    return new Random(`${this.#seed}/${purpose}`);
  }

  /** From 0, below 1. */
  next() {
    const [a = 0, b = 0, c = 0, counter = 0] = this.#state;
    const sum = (a + b + counter) >>> 0;
    this.#state[0] = b ^ (b >>> 9);
    this.#state[1] = c + (c << 3);
    this.#state[2] = ((c << 21) | (c >>> 11)) + sum;
    this.#state[3] = counter + 1;
    return sum / 2 ** 32;
  }

  /**
   * A whole number.
   *
   * @param {number} least
   * @param {number} most
   */
  int(least, most) {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  /** @param {number} probability */
  chance(probability) {
    return this.next() < probability;
  }

  /**
   * One of these.
   *
   * @template T
   * @param {readonly T[]} choices At least one.
   * @returns {T}
   */
  pick(choices) {
    const chosen = choices[this.int(0, choices.length - 1)];
    if (chosen === undefined) throw new Error("pick: there is nothing to choose from");
    return chosen;
  }

  /**
   * The same in another order.
   *
   * @template T
   * @param {readonly T[]} items
   * @returns {T[]}
   */
  shuffle(items) {
    return items
      .map((item) => ({ item, at: this.next() }))
      .sort((a, b) => a.at - b.at)
      .map(({ item }) => item);
  }
}
