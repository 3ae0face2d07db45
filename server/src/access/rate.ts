/** So many owners are remembered; above it those that have not taken anything for a second are forgotten. */
const SWEEP_ABOVE = 1_000;

interface Bucket {
  /** What is left, as of `at`. */
  left: number;
  at: number;
}

/** So many a second for each owner, and no more at once than that. Times are monotonic milliseconds. */
export class Rate {
  readonly #perSecond: number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** Takes one of an owner's. The milliseconds until there is one again where none is left; 0 when it was taken. */
  take(owner: string, now = performance.now()): number {
    const bucket = this.#bucket(owner, now);
    bucket.left = Math.min(this.#perSecond, bucket.left + ((now - bucket.at) * this.#perSecond) / 1_000);
    bucket.at = now;
    if (bucket.left < 1) return Math.ceil(((1 - bucket.left) * 1_000) / this.#perSecond);
    bucket.left--;
    return 0;
  }

  #bucket(owner: string, now: number): Bucket {
    const known = this.#buckets.get(owner);
    if (known !== undefined) return known;
    if (this.#buckets.size >= SWEEP_ABOVE) this.#sweep(now);
    const bucket = { left: this.#perSecond, at: now };
    this.#buckets.set(owner, bucket);
    return bucket;
  }

  /** A bucket that is full again is as one that was never there. */
  #sweep(now: number): void {
    for (const [owner, { at }] of this.#buckets) if (now - at > 1_000) this.#buckets.delete(owner);
  }
}
