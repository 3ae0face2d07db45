import type { Readable } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";

/** What gRPC puts before each message: a byte of flags and four of length. */
export const ENVELOPE_BYTES = 5;

interface Waiting<Frame> {
  readonly resolve: (result: IteratorResult<Frame, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Reads gRPC's messages from the body of a request, each when it is asked for: while nobody asks, the sender's window
 * closes. It fails with the codes that connect-node gives to what cannot be read, and with CANCELED where the body was
 * cut off.
 */
export class FrameReader<Frame> implements AsyncIterable<Frame> {
  readonly #body: Readable;
  readonly #parse: (bytes: Uint8Array) => Frame;
  readonly #maxBytes: number;
  readonly #look = (): void => this.#settle();
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** So many bytes are worth a look. */
  #needed = ENVELOPE_BYTES;
  #waiting: Waiting<Frame> | null = null;
  #ended = false;
  #isCut = false;

  constructor(body: Readable, parse: (bytes: Uint8Array) => Frame, maxBytes: number) {
    this.#body = body;
    this.#parse = parse;
    this.#maxBytes = maxBytes;
    body.on("readable", this.#look);
    body.once("end", () => {
      this.#ended = true;
      this.#settle();
    });
    body.once("close", () => {
      this.#isCut = !this.#ended;
      this.#ended = true;
      this.#settle();
    });
  }

  [Symbol.asyncIterator](): AsyncIterator<Frame, undefined> {
    return {
      next: () =>
        new Promise((resolve, reject) => {
          this.#waiting = { resolve, reject };
          this.#settle();
        }),
      return: () => {
        this.#stop();
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  /** Answers whoever waits for a message, if there is something to say. */
  #settle(): void {
    const waiting = this.#waiting;
    if (waiting === null) return;
    try {
      const frame = this.#take();
      if (frame === undefined && !this.#ended) return;
      this.#waiting = null;
      if (frame !== undefined) waiting.resolve({ done: false, value: frame });
      else if (this.#isCut) throw new ConnectError("the client went away", Code.Canceled);
      else if (this.#bytes > 0) throw unreadable("incomplete envelope", Code.InvalidArgument);
      else waiting.resolve({ done: true, value: undefined });
    } catch (error) {
      this.#waiting = null;
      this.#stop();
      waiting.reject(error);
    }
  }

  #take(): Frame | undefined {
    for (;;) {
      if (this.#bytes >= this.#needed) {
        const frame = this.#first();
        if (frame !== undefined) return frame;
      }
      const chunk: unknown = this.#ended ? null : this.#body.read();
      if (!Buffer.isBuffer(chunk)) return undefined;
      this.#chunks.push(chunk);
      this.#bytes += chunk.length;
    }
  }

  /** The first message, when all of it is here. */
  #first(): Frame | undefined {
    const [only] = this.#chunks;
    const bytes = only !== undefined && this.#chunks.length === 1 ? only : Buffer.concat(this.#chunks);
    const end = ENVELOPE_BYTES + this.#lengthOf(bytes);
    const isWhole = bytes.length >= end;
    const rest = isWhole ? bytes.subarray(end) : bytes;
    this.#chunks = rest.length === 0 ? [] : [rest];
    this.#bytes = rest.length;
    this.#needed = isWhole ? ENVELOPE_BYTES : end;
    return isWhole ? this.#parse(bytes.subarray(ENVELOPE_BYTES, end)) : undefined;
  }

  #lengthOf(bytes: Buffer): number {
    if (bytes.readUInt8(0) !== 0) throw unreadable("compressed, without an encoding", Code.Internal);
    const length = bytes.readUInt32BE(1);
    if (length > this.#maxBytes) {
      const message = `message size ${length} is larger than configured readMaxBytes ${this.#maxBytes}`;
      throw new ConnectError(message, Code.ResourceExhausted);
    }
    return length;
  }

  /** What still comes is read and dropped, so that the sender comes to its end. */
  #stop(): void {
    this.#ended = true;
    this.#chunks = [];
    this.#bytes = 0;
    this.#body.off("readable", this.#look);
    this.#body.resume();
  }
}

function unreadable(what: string, code: Code): ConnectError {
  return new ConnectError(`protocol error: ${what}`, code);
}
