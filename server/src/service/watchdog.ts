/** Silent intervals after which the other side counts as gone. */
export const SILENT_INTERVALS = 3;

/**
 * Watches one stream: `onSilent` is called when nothing was heard for three intervals, but only after one
 * more turn of the event loop in which nothing was readable, so that a process which was itself stopped
 * does not blame the other side.
 */
export class Watchdog {
  readonly #timer: NodeJS.Timeout;
  #heardAt = performance.now();

  constructor(intervalMs: number, onSilent: () => void) {
    const isSilent = (): boolean => performance.now() - this.#heardAt > SILENT_INTERVALS * intervalMs;
    this.#timer = setInterval(() => {
      if (!isSilent()) return;
      // Timers run before what the sockets hold; give that one turn.
      setImmediate(() => setImmediate(() => isSilent() && onSilent()));
    }, intervalMs);
    this.#timer.unref();
  }

  /** Something was heard. */
  heard(): void {
    this.#heardAt = performance.now();
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
