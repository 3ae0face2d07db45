import { Code, ConnectError } from "@connectrpc/connect";
import { LIMITS } from "./limits.js";

/** What gRPC puts before each message: a byte of flags and four of length. */
export const ENVELOPE_BYTES = 5;

/** Cuts gRPC's messages out of the chunks in which they arrive. */
export class EnvelopeReader {
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** So many bytes are worth a look. */
  #needed = ENVELOPE_BYTES;

  /**
   * Takes a chunk, and hands over each message that is complete with it.
   *
   * @throws ConnectError RESOURCE_EXHAUSTED for a message above the limit, INTERNAL for one that is compressed; and
   *   whatever `onMessage` throws.
   */
  read(chunk: Buffer, onMessage: (bytes: Uint8Array) => void): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) return;
    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks);
    let start = 0;
    for (;;) {
      const left = bytes.length - start;
      this.#needed = left < ENVELOPE_BYTES ? ENVELOPE_BYTES : ENVELOPE_BYTES + lengthAt(bytes, start);
      if (left < this.#needed) break;
      const end = start + this.#needed;
      onMessage(bytes.subarray(start + ENVELOPE_BYTES, end));
      start = end;
    }
    this.#chunks = start === bytes.length ? [] : [bytes.subarray(start)];
    this.#bytes = bytes.length - start;
  }

  /**
   * Nothing more comes.
   *
   * @throws ConnectError INVALID_ARGUMENT in the middle of a message
   */
  end(): void {
    if (this.#bytes > 0) throw new ConnectError("protocol error: incomplete envelope", Code.InvalidArgument);
  }
}

function lengthAt(bytes: Buffer, start: number): number {
  if (bytes.readUInt8(start) !== 0) {
    throw new ConnectError("protocol error: compressed, without an encoding", Code.Internal);
  }
  const length = bytes.readUInt32BE(start + 1);
  if (length > LIMITS.receivedFrameBytes) {
    throw new ConnectError(
      `message size ${length} is larger than ${LIMITS.receivedFrameBytes}`,
      Code.ResourceExhausted,
    );
  }
  return length;
}
