import {
  connect,
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type SecureClientSessionOptions,
} from "node:http2";
import {
  fromBinary,
  toBinary,
  type DescMessage,
  type DescMethodBiDiStreaming,
  type MessageShape,
} from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { validateResponse, validateTrailer } from "@connectrpc/connect/protocol-grpc";
import { ENVELOPE_BYTES, EnvelopeReader } from "./envelope-reader.js";

/** Where a {@link GrpcConnection} goes to. */
export interface GrpcConnectionOptions {
  /** With a path before the RPC's, if any, and no slash at its end. */
  readonly url: string;
  /** The `Authorization` header. */
  readonly authorization: string | undefined;
  readonly tls: SecureClientSessionOptions | undefined;
}

/** What the server may send ahead. */
const WINDOW_BYTES = 1024 * 1024;

/**
 * A connection of its own for one stream of plain gRPC. connect-node makes a dozen generators of a stream and passes
 * every message through all of them, which takes as long as all else that the SDK does for a call.
 */
export class GrpcConnection {
  readonly #options: GrpcConnectionOptions;
  #session: ClientHttp2Session | undefined;
  #keepAlive = true;

  constructor(options: GrpcConnectionOptions) {
    this.#options = options;
  }

  /**
   * Carries the stream: sends these frames, and hands over those that come. Resolves when the server has ended it in
   * order; rejects with the error that it ended with, with what cut it off, or with what `onFrame` throws.
   */
  stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodBiDiStreaming<I, O>,
    frames: AsyncIterable<MessageShape<I>, undefined>,
    onFrame: (frame: MessageShape<O>) => void,
  ): Promise<void> {
    const { url, authorization, tls } = this.#options;
    const { pathname } = new URL(url);
    return new Promise((resolve, reject) => {
      const session = connect(url, { ...tls, settings: { initialWindowSize: WINDOW_BYTES } });
      this.#session = session;
      session.once("connect", () => session.setLocalWindowSize(WINDOW_BYTES));
      session.on("error", (error) => reject(cutOff(error)));
      if (!this.#keepAlive) session.unref();
      const stream = session.request(
        {
          ":method": "POST",
          ":path": `${pathname === "/" ? "" : pathname}/${method.parent.typeName}/${method.name}`,
          "content-type": "application/grpc+proto",
          te: "trailers",
          ...(authorization === undefined ? {} : { authorization }),
        },
        { endStream: false },
      );
      receive(stream, (bytes) => onFrame(parse(method.output, bytes)), resolve, reject);
      send(stream, frames, (frame) => serialize(method.input, frame)).catch(reject);
    });
  }

  /** Ends the connection at once, black hole or not. */
  abort(): void {
    this.#session?.destroy(undefined, constants.NGHTTP2_CANCEL);
  }

  /** Whether the connection keeps the process alive. */
  keepAlive(on: boolean): void {
    if (this.#keepAlive === on) return;
    this.#keepAlive = on;
    if (this.#session === undefined || this.#session.destroyed) return;
    if (on) this.#session.ref();
    else this.#session.unref();
  }
}

/** Waits for each frame's way to the socket before it asks for the next, so that more goes into that one meanwhile. */
async function send<Frame>(
  stream: ClientHttp2Stream,
  frames: AsyncIterable<Frame, undefined>,
  serialized: (frame: Frame) => Buffer,
): Promise<void> {
  const iterator = frames[Symbol.asyncIterator]();
  stream.once("close", () => void iterator.return?.());
  for (;;) {
    const next = await iterator.next();
    // What broke the stream is told by its events.
    if (stream.destroyed || stream.closed) return;
    if (next.done === true) {
      stream.end();
      return;
    }
    const bytes = serialized(next.value);
    await new Promise((resolve) => stream.write(bytes, resolve));
  }
}

function receive(
  stream: ClientHttp2Stream,
  onMessage: (bytes: Uint8Array) => void,
  onEnd: () => void,
  onError: (error: unknown) => void,
): void {
  const reader = new EnvelopeReader();
  let head: Headers | undefined;
  let trailers: Headers | undefined;
  let failed = false;
  let ended = false;
  const attempt = (work: () => void): void => {
    if (failed) return;
    try {
      work();
    } catch (error) {
      failed = true;
      onError(error);
      stream.close(constants.NGHTTP2_CANCEL);
    }
  };
  stream.once("response", (headers) => {
    attempt(() => {
      head = toHeaders(headers);
      const { headerError } = validateResponse(headers[":status"] ?? 0, head);
      if (headerError !== undefined) throw headerError;
    });
  });
  stream.on("data", (chunk: Buffer) => {
    attempt(() => reader.read(chunk, onMessage));
  });
  stream.once("trailers", (headers: IncomingHttpHeaders) => {
    trailers = toHeaders(headers);
  });
  stream.once("error", (error) => onError(cutOff(error)));
  stream.once("end", () => {
    ended = true;
    // Trailers may be told of in the same turn.
    setImmediate(() => {
      attempt(() => {
        if (head === undefined || stream.rstCode === constants.NGHTTP2_CANCEL) throw closedEarly();
        validateTrailer(trailers ?? new Headers(), head);
        reader.end();
        onEnd();
      });
    });
  });
  // Other codes than NO_ERROR and CANCEL are told of as errors, before it. After an end, its trailers have the word.
  stream.once("close", () => {
    if (!ended) onError(closedEarly());
  });
}

function serialize<I extends DescMessage>(input: I, frame: MessageShape<I>): Buffer {
  let message: Uint8Array;
  try {
    message = toBinary(input, frame);
  } catch (error) {
    throw new ConnectError(`serialize binary: ${messageOf(error)}`, Code.Internal);
  }
  const bytes = Buffer.allocUnsafe(ENVELOPE_BYTES + message.length);
  bytes.writeUInt8(0, 0);
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, ENVELOPE_BYTES);
  return bytes;
}

function parse<O extends DescMessage>(output: O, bytes: Uint8Array): MessageShape<O> {
  try {
    return fromBinary(output, bytes);
  } catch (error) {
    throw new ConnectError(`parse binary: ${messageOf(error)}`, Code.Internal);
  }
}

function closedEarly(): ConnectError {
  return cutOff(new Error("the connection was closed"));
}

function cutOff(cause: unknown): ConnectError {
  return new ConnectError(messageOf(cause), Code.Unavailable, undefined, undefined, cause);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function toHeaders(headers: IncomingHttpHeaders): Headers {
  const result = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || name.startsWith(":")) continue;
    for (const each of [value].flat()) result.append(name, each);
  }
  return result;
}
