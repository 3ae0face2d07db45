/** How long an outage lasts before it is worth a word. */
export const TROUBLE_MS = 2_000;

const FIRST_MS = 100;
/** How far apart tries are while an outage is young. */
const YOUNG_CAP_MS = 2_000;
const YOUNG_MS = 10_000;
const CAP_MS = 8_000;
const SPREAD_CAP_MS = 4_000;

/**
 * How long to wait before the next try: doubling from a tenth of a second, at most 2 s in the first
 * 10 s of an outage and 8 s later, jittered by half so that not everybody comes back at once. It never
 * gives up.
 */
export class Backoff {
  readonly #now: () => number;
  readonly #random: () => number;
  #tries = 0;
  #since: number | undefined;

  /** Time and randomness are given by tests only. */
  constructor(now: () => number = Date.now, random: () => number = Math.random) {
    this.#now = now;
    this.#random = random;
  }

  /**
   * Milliseconds until the first try after a connection was cut that had been good: anywhere within `spreadMs`,
   * at most 4 s, since a node that dies cuts all of its clients in the same moment.
   */
  first(spreadMs: number): number {
    this.#since ??= this.#now();
    return Math.round(Math.min(spreadMs, SPREAD_CAP_MS) * this.#random());
  }

  /** Milliseconds until the next try. */
  next(): number {
    const now = this.#now();
    this.#since ??= now;
    const cap = now - this.#since < YOUNG_MS ? YOUNG_CAP_MS : CAP_MS;
    const step = Math.min(cap, FIRST_MS * 2 ** Math.min(this.#tries, 10));
    this.#tries++;
    return Math.round(step * (0.5 + this.#random() / 2));
  }

  /** After a success. */
  reset(): void {
    this.#tries = 0;
    this.#since = undefined;
  }

  /** How long the outage has lasted, in milliseconds; 0 when there is none. */
  outageMs(): number {
    return this.#since === undefined ? 0 : this.#now() - this.#since;
  }
}
