import { TrunklineError } from "../core/error.js";

/** A stream that can be asked to end. */
export interface EndableStream {
  /** Finishes what it has begun, then ends with UNAVAILABLE, so that its client goes elsewhere. */
  shutDown(): void;
}

/** The streams that are open on this node, so that a shutdown need not wait for their clients to leave. */
export class OpenStreams {
  readonly #streams = new Set<EndableStream>();
  #down = false;

  /** Counts a stream until `remove`; one that comes during the shutdown is asked to end at once. */
  add(stream: EndableStream): void {
    this.#streams.add(stream);
    if (this.#down) stream.shutDown();
  }

  remove(stream: EndableStream): void {
    this.#streams.delete(stream);
  }

  /** Asks all streams to end, those too that come later. */
  shutDown(): void {
    this.#down = true;
    for (const stream of this.#streams) stream.shutDown();
  }
}

/** What a client is told whose node goes down. */
export function shuttingDown(): TrunklineError {
  return new TrunklineError("UNAVAILABLE", "the node is shutting down; connect again", { retryAfterMs: 100 });
}
