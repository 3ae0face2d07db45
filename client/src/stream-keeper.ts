import type { TrunklineError } from "./errors.js";
import { Backoff, TROUBLE_MS } from "./reconnect.js";

/** A stream that said goaway this soon after its opening is not replaced at once. */
const YOUNG_MS = 1_000;

/** How a {@link StreamKeeper} works. */
export interface StreamKeeperOptions<S> {
  /** Opens the next stream, on a new connection. */
  readonly open: () => S;
  /** Within which time the first try after the cut of a welcomed stream comes, in milliseconds. */
  readonly spreadMs: () => number;
  /** Whether a stream is needed now; a cut is repaired only then. */
  readonly wanted: () => boolean;
  /** Turns what ended a stream into an error. */
  readonly explain: (cause: unknown) => TrunklineError;
  /** Whether an error makes further tries useless. */
  readonly isFatal: (error: TrunklineError) => boolean;
  /** Once, on such an error. The keeper is closed by then. */
  readonly onFatal: (error: TrunklineError) => void;
  /** Once per outage, when it has lasted a while. */
  readonly onTrouble: (error: TrunklineError) => void;
  /** When an outage that was told of is over. */
  readonly onRecovery?: () => void;
}

/**
 * Keeps one stream open: opens the next after a cut, for ever, and after a goaway before the old one has
 * ended. The *newest* stream is the one opened last; the *active* one is the last that was welcomed.
 */
export class StreamKeeper<S> {
  readonly #options: StreamKeeperOptions<S>;
  readonly #backoff = new Backoff();
  #newest: S | undefined;
  #active: S | undefined;
  /** The active one, which goes on unless the newest is welcomed. */
  #spare: S | undefined;
  #openedAt = 0;
  #retry: NodeJS.Timeout | undefined;
  #keepAlive = true;
  #told = false;
  #closed = false;

  constructor(options: StreamKeeperOptions<S>) {
    this.#options = options;
  }

  /** The stream opened last, if it has not ended. */
  get newest(): S | undefined {
    return this.#newest;
  }

  /** The last stream that was welcomed, if it has not ended. */
  get active(): S | undefined {
    return this.#active;
  }

  /** Opens a stream unless there is one, or one is about to be opened. */
  start(): void {
    if (this.#closed || this.#newest !== undefined || this.#retry !== undefined) return;
    this.#open();
  }

  /** Opens a stream beside the active one, which stays unless the other is welcomed. */
  tryAnother(): void {
    if (this.#closed || this.#active === undefined || this.#newest !== this.#active) return;
    this.#spare = this.#active;
    this.#open();
  }

  /** The next stream goes another way: it is opened without the delay that the last ones have earned. */
  changeWay(): void {
    this.#backoff.reset();
  }

  /** A stream was welcomed: the outage, if there was one, is over. */
  welcomed(stream: S): void {
    if (stream !== this.#newest) return;
    this.#active = stream;
    this.#spare = undefined;
    this.#backoff.reset();
    if (this.#told) this.#options.onRecovery?.();
    this.#told = false;
  }

  /** A stream asked to be replaced; it goes on until it ends. */
  goaway(stream: S): void {
    if (stream !== this.#newest || this.#closed) return;
    this.#newest = undefined;
    if (!this.#options.wanted()) return;
    if (Date.now() - this.#openedAt < YOUNG_MS) this.#schedule(this.#backoff.next());
    else this.#open();
  }

  /** A stream has ended; that of an older one is no cut. */
  ended(stream: S, cause: unknown): void {
    const wasActive = stream === this.#active;
    if (wasActive) this.#active = undefined;
    if (stream === this.#spare) this.#spare = undefined;
    if (stream !== this.#newest) return;
    this.#newest = this.#spare;
    this.#spare = undefined;
    if (this.#closed || this.#newest !== undefined) return;
    const error = this.#options.explain(cause);
    if (this.#options.isFatal(error)) {
      this.close();
      this.#options.onFatal(error);
      return;
    }
    if (!this.#options.wanted()) return;
    this.#schedule(wasActive ? this.#backoff.first(this.#options.spreadMs()) : this.#backoff.next());
    if (!this.#told && this.#backoff.outageMs() >= TROUBLE_MS) {
      this.#told = true;
      this.#options.onTrouble(error);
    }
  }

  /** Whether waiting for the next try keeps the process alive. */
  keepAlive(on: boolean): void {
    this.#keepAlive = on;
    if (on) this.#retry?.ref();
    else this.#retry?.unref();
  }

  /** Opens nothing any more. Streams that are open are their owner's to end. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#retry = undefined;
  }

  #open(): void {
    this.#openedAt = Date.now();
    this.#newest = this.#options.open();
  }

  #schedule(inMs: number): void {
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      if (this.#options.wanted()) this.start();
    }, inMs);
    this.keepAlive(this.#keepAlive);
  }
}
