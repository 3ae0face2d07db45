import { abortReason, onAbort } from "../abort.js";

const SEEN_MS = 2_000;
/** Between two looks while nobody sees the page. */
const HIDDEN_MS = 30_000;

/** How often a page looks for what is new: often while it is seen, seldom otherwise, and at once when it shows again. */
export class Pace {
  readonly #seenMs: number;
  readonly #resting = new Set<() => void>();
  #news = 0;

  /** @param seenMs between two looks while somebody sees the page; given by tests only */
  constructor(seenMs = SEEN_MS) {
    this.#seenMs = seenMs;
  }

  /** A number that grows with what is new. */
  get news(): number {
    return this.#news;
  }

  /** There is something new: every rest ends. */
  wake(): void {
    this.#news++;
    for (const end of [...this.#resting]) end();
  }

  /**
   * Waits until it is time for another look: at once when there is something newer than `news`. Rejects with the
   * signal's reason when that aborts before.
   */
  rest(news: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (news !== this.#news) {
        resolve();
        return;
      }
      // In a worker there is no page to be seen.
      const page = typeof document === "undefined" ? undefined : document;
      let forget = (): void => undefined;
      const stop = (): void => {
        clearTimeout(timer);
        this.#resting.delete(end);
        page?.removeEventListener("visibilitychange", shown);
        page?.defaultView?.removeEventListener("online", end);
        forget();
      };
      const end = (): void => {
        stop();
        resolve();
      };
      const shown = (): void => {
        if (page?.hidden === false) end();
      };
      const timer = setTimeout(end, page?.hidden === true ? HIDDEN_MS : this.#seenMs);
      this.#resting.add(end);
      page?.addEventListener("visibilitychange", shown);
      page?.defaultView?.addEventListener("online", end);
      if (signal === undefined) return;
      forget = onAbort(signal, () => {
        stop();
        reject(abortReason(signal));
      });
    });
  }
}
