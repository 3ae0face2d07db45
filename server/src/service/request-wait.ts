import type { Caller } from "../core/caller.js";
import type { TrunklineError } from "../core/error.js";
import { noDatabase } from "../exchange/availability.js";
import { shuttingDown, type EndableStream, type OpenStreams } from "./open-streams.js";
import { endedEarly } from "./request-end.js";

/** One request that waits: woken by what it waits for, by its end, by its client's going away, or by its node's. */
export class RequestWait implements EndableStream {
  readonly #streams: OpenStreams;
  readonly #signal: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #onAbort = (): void => this.poke();
  #over: boolean;
  #poked = false;
  #down: TrunklineError | null = null;
  #resume: (() => void) | null = null;

  /**
   * @param timeoutMs at most 60 s; 0 does not wait at all
   * @throws TrunklineError OVERLOADED where the caller has as many streams and waits as are allowed
   */
  constructor(timeoutMs: number, signal: AbortSignal, streams: OpenStreams, caller: Caller) {
    streams.add(this, caller);
    this.#streams = streams;
    this.#signal = signal;
    this.#over = timeoutMs === 0;
    this.#timer = setTimeout(() => {
      this.#over = true;
      this.poke();
    }, timeoutMs);
    signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  shutDown(): void {
    this.#down = shuttingDown();
    this.poke();
  }

  databaseLost(): void {
    this.#down = noDatabase();
    this.poke();
  }

  expelled(refusal: TrunklineError): void {
    this.#down = refusal;
    this.poke();
  }

  /** Whether its time has passed. */
  get isOver(): boolean {
    return this.#over;
  }

  /** Ends the pause that is running, or else the next one. */
  poke(): void {
    this.#poked = true;
    this.#resume?.();
    this.#resume = null;
  }

  /**
   * Pauses until something pokes; at once if something has since the last pause. False when the time has passed.
   *
   * @throws ConnectError CANCELED when the client has gone away, or DEADLINE_EXCEEDED; TrunklineError UNAVAILABLE when
   *   the node goes down or loses its database
   */
  async next(): Promise<boolean> {
    if (!this.#poked && !this.#over && this.#down === null && !this.#signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#resume = resolve;
      });
    }
    this.#poked = false;
    if (this.#signal.aborted) throw endedEarly(this.#signal);
    if (this.#down !== null) throw this.#down;
    return !this.#over;
  }

  /** Leaves nothing behind. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#streams.remove(this);
    this.#signal.removeEventListener("abort", this.#onAbort);
  }
}
