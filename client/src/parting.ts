/** How long a drained worker waits for a server that is away, or that does not say `drained`. */
const PARTING_MS = 10_000;

/** What a worker that drains still has. */
export interface Remainder {
  /** Slots taken by handlers that have not ended. */
  readonly busy: number;
  /** Claims without an acknowledgement. */
  readonly held: number;
  /** Whether a stream is welcomed, is about to be, or is not there at all. */
  readonly link: "up" | "opening" | "down";
  /** Whether the server said `drained`. */
  readonly drained: boolean;
}

/**
 * Decides when a worker that drains may leave: when nothing is left to run or to deliver; and, where the
 * server is away or owes only its last word, after a bounded wait.
 */
export class Parting {
  readonly #leave: () => void;
  readonly #giveUp: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(leave: () => void, giveUp: () => void) {
    this.#leave = leave;
    this.#giveUp = giveUp;
  }

  /** Looks again; to be called whenever one of these has changed. */
  consider({ busy, held, link, drained }: Remainder): void {
    if (busy > 0) {
      this.cancel();
    } else if (held === 0 && (drained || link === "down")) {
      this.cancel();
      this.#leave();
    } else if (held > 0 && link === "up") {
      // The server is there and will acknowledge.
      this.cancel();
    } else {
      this.#timer ??= setTimeout(this.#giveUp, PARTING_MS);
    }
  }

  cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
