import type { Quotas } from "../access/quotas.js";
import type { Caller } from "../core/caller.js";
import { TrunklineError } from "../core/error.js";

/** A stream that can be asked to end. */
export interface EndableStream {
  /**
   * Finishes what it has begun, then ends with UNAVAILABLE, so that its client goes elsewhere; at the latest
   * after so many milliseconds.
   */
  shutDown(deadlineMs: number): void;
  /** As {@link shutDown}, of a node that has lost its database and may get it back. Default: goes on. */
  databaseLost?(deadlineMs: number): void;
  /** Ends it at once with why: its caller's credential was revoked, or has expired. Default: {@link shutDown}. */
  expelled?(refusal: TrunklineError): void;
}

/** The streams that are open on this node, so that a shutdown need not wait for their clients to leave. */
export class OpenStreams {
  readonly #streams = new Map<EndableStream, Caller | null>();
  /** What is left of the shutdown when it began; null before it. */
  #deadlineMs: number | null = null;
  #idle: (() => void) | null = null;
  readonly #quotas: Quotas | null;

  constructor(quotas: Quotas | null = null) {
    this.#quotas = quotas;
  }

  /** Streams that are open, or whose end is still being written down. */
  get size(): number {
    return this.#streams.size;
  }

  /**
   * Counts a stream until `remove`; one that comes during the shutdown is asked to end at once.
   *
   * @param caller whose it is; null where nobody was asked
   * @throws TrunklineError OVERLOADED where the caller has as many as are allowed
   */
  add(stream: EndableStream, caller: Caller | null): void {
    if (caller !== null) this.#quotas?.enter(caller);
    this.#streams.set(stream, caller);
    if (this.#deadlineMs !== null) stream.shutDown(this.#deadlineMs);
  }

  remove(stream: EndableStream): void {
    const caller = this.#streams.get(stream);
    if (caller !== null && caller !== undefined) this.#quotas?.leave(caller);
    this.#streams.delete(stream);
    if (this.#streams.size === 0) this.#idle?.();
  }

  /** Resolves when no stream is counted any more, or the time has passed. */
  async idle(withinMs: number): Promise<void> {
    if (this.#streams.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, withinMs);
      this.#idle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Asks all streams to end within so many milliseconds, those too that come later. */
  shutDown(deadlineMs: number): void {
    this.#deadlineMs = deadlineMs;
    for (const stream of this.#streams.keys()) stream.shutDown(deadlineMs);
  }

  /** Asks the streams that are open now to go elsewhere within so many milliseconds. */
  databaseLost(deadlineMs: number): void {
    for (const stream of this.#streams.keys()) stream.databaseLost?.(deadlineMs);
  }

  /** Ends those whose callers would be refused now. */
  expel(refusalOf: (caller: Caller) => TrunklineError | null): void {
    for (const [stream, caller] of this.#streams) {
      const refusal = caller === null ? null : refusalOf(caller);
      if (refusal === null) continue;
      if (stream.expelled === undefined) stream.shutDown(0);
      else stream.expelled(refusal);
    }
  }
}

/** What a client is told whose node goes down. */
export function shuttingDown(): TrunklineError {
  return new TrunklineError("UNAVAILABLE", "the node is shutting down; connect again", { retryAfterMs: 100 });
}
