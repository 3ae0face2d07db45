import { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import {
  fromBinary,
  type DescMessage,
  type DescMethodBiDiStreaming,
  type MessageShape,
} from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import type { Caller } from "../core/caller.js";
import { isFault, toConnectError } from "./error-map.js";
import { frameBytes } from "./frame-bytes.js";
import { FrameReader } from "./frame-reader.js";
import { messageOf } from "./listener-bind.js";
import { isGone, type RequestHandler } from "./listener-handler.js";
import { checkItems } from "./message-items.js";

type Request = Parameters<RequestHandler>[0];
type Response = Parameters<RequestHandler>[1];

/** What a {@link GrpcStream} is made from. */
export interface GrpcStreamOptions<I extends DescMessage, O extends DescMessage> {
  readonly method: DescMethodBiDiStreaming<I, O>;
  readonly serve: (
    requests: AsyncIterable<MessageShape<I>>,
    caller: Caller,
    signal: AbortSignal,
  ) => AsyncIterable<MessageShape<O>>;
  /** Whoever sent this `Authorization` header; throws where the request is refused. */
  readonly admit: (authorization: string | null) => Promise<Caller>;
  readonly readMaxBytes: number;
  readonly writeMaxBytes: number;
  /** Told of faults of the server. */
  readonly onError: (error: unknown) => void;
}

/** A stream in both directions, as plain gRPC carries it. */
export interface GrpcStream {
  readonly path: string;
  /** Serves the request, or says that it is not plain gRPC. */
  readonly tryServe: (request: Request, response: Response) => boolean;
}

/**
 * How messages are read. What nobody knows is left out: kept, each of its fields, which may have two bytes, would be an
 * object of its own, a hundred times as large.
 */
export const READ_OPTIONS = { readUnknownFields: false } as const;

const CONTENT_TYPES: ReadonlySet<string | undefined> = new Set([
  "application/grpc",
  "application/grpc+proto",
]);

/**
 * Serves a stream of plain gRPC without connect-node, which makes a dozen generators of every stream and passes every
 * message through all of them: two thirds of what a message costs, and half of what an idle stream holds. Requests
 * with a deadline, with compression or in another protocol are left to it.
 */
export function grpcStream<I extends DescMessage, O extends DescMessage>(
  options: GrpcStreamOptions<I, O>,
): GrpcStream {
  return {
    path: `/${options.method.parent.typeName}/${options.method.name}`,
    tryServe: (request, response) => {
      if (!(request instanceof Http2ServerRequest) || !isHttp2(response) || !isPlain(request)) return false;
      // Whatever is thrown is in the answer already; what is left is a peer that has gone.
      carry(options, request, response).catch(() => undefined);
      return true;
    },
  };
}

function isHttp2(response: Response): response is Http2ServerResponse {
  return response instanceof Http2ServerResponse;
}

function isPlain({ method, headers }: Http2ServerRequest): boolean {
  const { "content-type": type, "grpc-encoding": encoding = "identity", "grpc-timeout": timeout } = headers;
  return method === "POST" && CONTENT_TYPES.has(type) && encoding === "identity" && timeout === undefined;
}

async function carry<I extends DescMessage, O extends DescMessage>(
  { method, serve, admit, readMaxBytes, writeMaxBytes, onError }: GrpcStreamOptions<I, O>,
  request: Http2ServerRequest,
  response: Http2ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  request.once("close", () => gone.abort());
  let failure: ConnectError | undefined;
  try {
    const caller = await admit(request.headers.authorization ?? null);
    // Who went away meanwhile is not served: nothing would ever tell that again.
    if (isGone(response)) return;
    const requests = new FrameReader(request, parserOf(method.input), readMaxBytes);
    for await (const frame of serve(requests, caller, gone.signal)) {
      const bytes = frameBytes(method.output, frame, writeMaxBytes);
      if (gone.signal.aborted) return;
      sendHead(response);
      if (!response.write(bytes)) await drained(response, gone.signal);
    }
  } catch (error) {
    if (isFault(error)) onError(error);
    failure = toConnectError(error);
  }
  if (gone.signal.aborted) return;
  sendHead(response);
  response.addTrailers(Object.fromEntries(setTrailerStatus(new Headers(), failure)));
  response.end();
}

function parserOf<I extends DescMessage>(input: I): (bytes: Uint8Array) => MessageShape<I> {
  const parse = (bytes: Uint8Array): MessageShape<I> => {
    try {
      return fromBinary(input, bytes, READ_OPTIONS);
    } catch (error) {
      throw new ConnectError(`parse binary: ${messageOf(error)}`, Code.InvalidArgument);
    }
  };
  return (bytes) => {
    const message = parse(bytes);
    checkItems(message);
    return message;
  };
}

/** Not before the first message: what is refused has one head, with its trailers. */
function sendHead(response: Http2ServerResponse): void {
  if (!response.headersSent) response.writeHead(200, { "content-type": "application/grpc+proto" });
}

/** Resolves when the client has read enough, or has gone. */
function drained(response: Http2ServerResponse, gone: AbortSignal): Promise<void> {
  if (gone.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      response.off("drain", done);
      gone.removeEventListener("abort", done);
      resolve();
    };
    response.on("drain", done);
    gone.addEventListener("abort", done);
  });
}
