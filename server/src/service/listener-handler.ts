import type { connectNodeAdapter } from "@connectrpc/connect-node";
import { Http2ServerRequest } from "node:http2";

/** What connect-node makes of a set of services: it answers a request of either protocol. */
export type RequestHandler = ReturnType<typeof connectNodeAdapter>;

type Request = Parameters<RequestHandler>[0];
type Response = Parameters<RequestHandler>[1];

function ignore(): void {
  // The peer is gone or the message is over: connect-node sees that for itself.
}

/** Connect-node builds a URL from the authority, outside of any promise, and throws when it cannot. */
function hasUsableAuthority(request: Request): boolean {
  const authority = request instanceof Http2ServerRequest ? request.authority : request.headers.host;
  return authority !== undefined && URL.canParse(`http://${authority}/`);
}

function answer(response: Response, status: number, text: string): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8" });
  response.end(`${text}\n`);
}

/** Whether nobody is there any more to read an answer. */
export function isGone(response: Response): boolean {
  return "stream" in response ? response.stream.destroyed : response.destroyed;
}

function fail(response: Response, error: unknown, onError: (error: unknown) => void): void {
  // Using a response whose peer is gone throws (Node issue 57416); that is no fault of the handler.
  if (isGone(response)) return;
  try {
    answer(response, 500, "internal error");
  } finally {
    onError(error);
  }
}

/**
 * Wraps a handler so that no request can end the process, whatever the handler throws and whenever
 * the peer goes away: Node throws from writes to a stream that is already destroyed, and emits errors
 * on requests and responses that nobody listens to any more.
 */
export function guardedHandler(handler: RequestHandler, onError: (error: unknown) => void): RequestHandler {
  return (request, response) => {
    request.on("error", ignore);
    response.on("error", ignore);
    try {
      if (hasUsableAuthority(request)) handler(request, response);
      else
        answer(
          response,
          400,
          "the request names no usable host: send Host or :authority as HOST or HOST:PORT",
        );
    } catch (error) {
      fail(response, error, onError);
    }
  };
}
