/**
 * One holder per call at a time, in the order of asking: a batch may hold one decision per call, and two
 * decisions on one row would each start from the same version.
 */
export class CallLock {
  readonly #queues = new Map<string, (() => void)[]>();

  /** Whether somebody is at work on the call. */
  isHeld(key: string): boolean {
    return this.#queues.has(key);
  }

  /** Runs `work` alone for this call. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(key);
    if (queue === undefined) this.#queues.set(key, []);
    else await new Promise<void>((resume) => queue.push(resume));
    try {
      return await work();
    } finally {
      const next = this.#queues.get(key)?.shift();
      if (next === undefined) this.#queues.delete(key);
      else next();
    }
  }
}
