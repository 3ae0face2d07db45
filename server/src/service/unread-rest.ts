import { IncomingMessage } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import { LIMITS } from "../core/limits.js";
import type { RequestHandler } from "./listener-handler.js";

type Request = Parameters<RequestHandler>[0];
type Response = Parameters<RequestHandler>[1];

/** What an honest client may have on its way when it is answered early: one whole message. */
const REST_BYTES = LIMITS.frameBytes;
const REST_MS = 5_000;
/** How long a client that has its answer may take to end its half of the stream. */
const LINGER_MS = 1_000;

/**
 * Bounds what a client still sends of a request that has its answer. In HTTP/2 its stream is closed. In HTTP/1.1 the
 * rest is read and dropped, since a connection that is closed before may take the answer with it; one that goes on for
 * too long is cut.
 */
export function boundRest(request: Request, response: Response): void {
  if ("stream" in response) {
    closeAfterAnswer(request, response.stream);
  } else {
    // Before Node's own listener, which would read on without end.
    response.prependListener("finish", () => {
      if (request instanceof IncomingMessage && !request.complete) dropRest(request);
    });
  }
}

function closeAfterAnswer(request: Request, stream: ServerHttp2Stream): void {
  stream.once("finish", () => {
    if (request.complete) return;
    // Not at once: a reset that overtakes the trailers in the client's own reading takes the answer with it.
    const timer = setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), LINGER_MS);
    stream.once("close", () => clearTimeout(timer));
  });
}

function dropRest(request: IncomingMessage): void {
  const { socket } = request;
  let left = REST_BYTES;
  const cut = (): void => {
    socket.destroy();
  };
  const late = setTimeout(cut, REST_MS);
  // A request that somebody has read of is not taken over by Node.
  request.read(0);
  request.on("data", ({ length }: Buffer) => {
    left -= length;
    if (left < 0) cut();
  });
  request.once("close", () => clearTimeout(late));
}
