/**
 * The sending half of a stream: gathers what is pushed in one turn of the event loop, and while the
 * line is busy, into one frame. It holds nothing itself: `next` builds the frame at the moment when the
 * line asks for it, and returns undefined when there is nothing to say.
 */
export class FrameWriter<Frame> implements AsyncIterable<Frame, undefined> {
  readonly #next: () => Frame | undefined;
  #ask: ((result: IteratorResult<Frame, undefined>) => void) | undefined;
  #scheduled = false;
  #ended = false;

  constructor(next: () => Frame | undefined) {
    this.#next = next;
  }

  /** Sends what is ready at the end of this turn of the event loop. */
  wake(): void {
    if (this.#ask === undefined || this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.flush();
    });
  }

  /** Sends what is ready now, without waiting for more. */
  flush(): void {
    const ask = this.#ask;
    if (ask === undefined) return;
    const frame = this.#next();
    if (frame !== undefined) {
      this.#ask = undefined;
      ask({ done: false, value: frame });
    } else if (this.#ended) {
      this.#ask = undefined;
      ask({ done: true, value: undefined });
    }
  }

  /** Closes this half of the stream after what is ready has been sent. */
  end(): void {
    this.#ended = true;
    this.flush();
  }

  [Symbol.asyncIterator](): AsyncIterator<Frame, undefined> {
    return {
      next: () =>
        new Promise((resolve) => {
          this.#ask = resolve;
          this.flush();
        }),
      return: () => {
        this.#close();
        return Promise.resolve({ done: true, value: undefined });
      },
      // The transport takes only iterators that can be ended with an error.
      throw: (cause: unknown) => {
        this.#close();
        return Promise.reject(cause instanceof Error ? cause : new Error(String(cause)));
      },
    };
  }

  #close(): void {
    this.#ended = true;
    this.#ask?.({ done: true, value: undefined });
    this.#ask = undefined;
  }
}
