import { within } from "./until.js";

/** What happened so far, and what is still awaited. */
export class EventLog<E> {
  readonly #events: E[] = [];
  readonly #waiters = new Set<(event: E) => void>();

  /** Everything so far, in order. */
  get all(): readonly E[] {
    return this.#events;
  }

  add(event: E): void {
    this.#events.push(event);
    for (const waiter of [...this.#waiters]) waiter(event);
  }

  /** The first event that fits, whether it has happened or is still to come. */
  async first(what: string, fits: (event: E) => boolean, withinMs?: number): Promise<E> {
    const seen = this.#events.find(fits);
    if (seen !== undefined) return seen;
    let forget = (): void => undefined;
    const coming = new Promise<E>((resolve) => {
      const waiter = (event: E): void => {
        if (fits(event)) resolve(event);
      };
      this.#waiters.add(waiter);
      forget = () => void this.#waiters.delete(waiter);
    });
    try {
      return await within(what, coming, withinMs);
    } finally {
      forget();
    }
  }
}
