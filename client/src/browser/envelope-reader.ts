import { TrunklineError } from "../errors.js";

/** One message of a Connect stream, or its end. */
export interface Envelope {
  readonly flags: number;
  readonly text: string;
}

/** A byte of flags and four of length. */
const HEAD_BYTES = 5;
/** A call with all that it may hold, each byte escaped, is far below; what is above is no length. */
const MAX_BYTES = 64 * 1024 * 1024;

/** Cuts the body of an answer into its envelopes. */
export class EnvelopeReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #chunk: Uint8Array = new Uint8Array(0);

  constructor(body: ReadableStream<Uint8Array>) {
    this.#reader = body.getReader();
  }

  /**
   * The next one; undefined when the body ends.
   *
   * @throws TrunklineError UNAVAILABLE when it ends within one, or is none of Connect
   */
  async next(): Promise<Envelope | undefined> {
    const head = await this.#take(HEAD_BYTES);
    if (head === undefined) return undefined;
    const view = new DataView(head.buffer);
    const bytes = view.getUint32(1);
    if (bytes > MAX_BYTES) throw cut(`a message of ${bytes} bytes was announced`);
    const body = await this.#take(bytes);
    if (body === undefined) throw cut("the stream ended within a message");
    return { flags: view.getUint8(0), text: this.#decoder.decode(body) };
  }

  /** Undefined when the body ends before the first of them. */
  async #take(count: number): Promise<Uint8Array | undefined> {
    const taken = new Uint8Array(count);
    for (let at = 0; at < count;) {
      if (this.#chunk.length === 0) {
        const { done, value } = await this.#reader.read();
        if (done && at === 0) return undefined;
        if (done) throw cut("the stream ended within a message");
        this.#chunk = value;
      }
      const part = this.#chunk.subarray(0, count - at);
      taken.set(part, at);
      at += part.length;
      this.#chunk = this.#chunk.subarray(part.length);
    }
    return taken;
  }
}

function cut(why: string): TrunklineError {
  return new TrunklineError("UNAVAILABLE", why);
}
