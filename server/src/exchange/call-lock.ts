/**
 * One holder per call at a time, in the order of asking: a batch may hold one decision per call, and two
 * decisions on one row would each start from the same version.
 */
export class CallLock {
  /** Who waits for each call that is held; null: nobody. */
  readonly #held = new Map<string, (() => void)[] | null>();

  /** Whether somebody is at work on the call. */
  isHeld(key: string): boolean {
    return this.#held.has(key);
  }

  /** Takes the call, or resolves when it is this one's turn; undefined: it was free. To be released in any case. */
  acquire(key: string): Promise<void> | undefined {
    const waiting = this.#held.get(key);
    if (waiting === undefined) {
      this.#held.set(key, null);
      return undefined;
    }
    return new Promise((resume) => {
      if (waiting === null) this.#held.set(key, [resume]);
      else waiting.push(resume);
    });
  }

  /** Lets the next one have the call. */
  release(key: string): void {
    const next = this.#held.get(key)?.shift();
    if (next === undefined) this.#held.delete(key);
    else next();
  }
}
