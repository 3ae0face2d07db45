/**
 * Spaces the tries of one outage: at most 2 s apart in its first ten seconds, then at most 8 s (8). The jitter is over
 * the whole step, since a node that dies cuts all of its workers in the same moment.
 */
export class Backoff {
  #since: number | undefined;
  #tries = 0;

  /** How long to wait before the next try, in milliseconds; `now` is in milliseconds too. */
  next(now: number): number {
    this.#since ??= now;
    const limit = now - this.#since < 10_000 ? 2_000 : 8_000;
    return Math.random() * Math.min(limit, 500 * 2 ** this.#tries++);
  }
}
