/** How a {@link Loop} runs. */
export interface LoopOptions {
  /** One round; resolves to the pause before the next, in milliseconds, or undefined for the usual one. */
  readonly work: () => Promise<number | undefined>;
  /** The usual pause, and the longest. */
  readonly everyMs: number;
  /** The pause after an error. Default: the usual one. */
  readonly retryMs?: number;
  readonly onError: (error: unknown) => void;
}

/** The shortest pause: a loop that always finds work still lets others run. */
const LEAST_MS = 5;
/** Pauses differ by up to this part, so that nodes started together do not stay in step. */
const JITTER = 0.1;

/**
 * A piece of upkeep that runs again and again, never twice at once. Errors go to `onError`, and the next
 * round comes as usual: no error ends a loop.
 */
export class Loop {
  readonly #options: LoopOptions;
  #timer: NodeJS.Timeout | null = null;
  #wakesAt = Infinity;
  #running: Promise<void> | null = null;
  #stopped = false;

  constructor(options: LoopOptions) {
    this.#options = options;
  }

  start(): void {
    this.wakeIn(this.#options.everyMs * Math.random());
  }

  /** Brings the next round forward to `ms` from now, unless it comes earlier anyway. */
  wakeIn(ms: number): void {
    if (this.#stopped) return;
    const at = performance.now() + Math.min(ms, this.#options.everyMs);
    if (at >= this.#wakesAt) return;
    this.#wakesAt = at;
    if (this.#running === null) this.#arm();
  }

  /**
   * Does a round at once, after the one that is running; what it finds is as new as this call. The next comes as
   * usual.
   *
   * @returns what the round resolved to; undefined after an error, which went to `onError`, or the loop's end
   */
  async runNow(): Promise<number | undefined> {
    while (this.#running !== null) await this.#running;
    if (this.#stopped) return undefined;
    if (this.#timer !== null) clearTimeout(this.#timer);
    let pauseMs: number | undefined;
    this.#running = this.#round((ms) => {
      pauseMs = ms;
    });
    await this.#running;
    return pauseMs;
  }

  /** Ends the loop; resolves when a round that is running has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#running;
  }

  #arm(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    const ms = Math.max(LEAST_MS, this.#wakesAt - performance.now());
    this.#timer = setTimeout(() => {
      this.#running = this.#round();
    }, ms);
  }

  async #round(tell?: (pauseMs: number | undefined) => void): Promise<void> {
    this.#wakesAt = Infinity;
    let pauseMs: number | undefined;
    try {
      pauseMs = await this.#options.work();
      tell?.(pauseMs);
    } catch (error) {
      this.#options.onError(error);
      pauseMs = this.#options.retryMs;
    }
    this.#running = null;
    if (this.#stopped) return;
    const usual = this.#options.everyMs * (1 - JITTER * Math.random());
    const at = performance.now() + Math.min(pauseMs ?? usual, this.#options.everyMs);
    this.#wakesAt = Math.min(this.#wakesAt, at);
    this.#arm();
  }
}
