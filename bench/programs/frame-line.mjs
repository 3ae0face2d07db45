// One direction of a stream, for the echo.

/**
 * Frames out of items: what is put in one turn of the event loop leaves in one frame.
 *
 * @template Frame
 */
export class FrameLine {
  #newFrame;
  /** @type {Frame | undefined} */
  #frame;
  #scheduled = false;
  #ended = false;
  #wake = () => undefined;

  /** @param {() => Frame} newFrame */
  constructor(newFrame) {
    this.#newFrame = newFrame;
  }

  /** The frame that leaves next, to add to. */
  get next() {
    this.#frame ??= this.#newFrame();
    if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(() => this.#wake());
    }
    return this.#frame;
  }

  end() {
    this.#ended = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator]() {
    while (!this.#ended) {
      if (this.#frame !== undefined) {
        const frame = this.#frame;
        this.#frame = undefined;
        this.#scheduled = false;
        yield frame;
      } else {
        await new Promise((resolve) => {
          this.#wake = () => resolve(undefined);
        });
      }
    }
  }
}
