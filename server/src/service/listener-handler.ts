import type { connectNodeAdapter } from "@connectrpc/connect-node";
import { Http2ServerRequest } from "node:http2";
import { answerPlainly, guardBrowsers } from "./plain-answer.js";
import { boundRest } from "./unread-rest.js";

/** What connect-node makes of a set of services: it answers a request of either protocol. */
export type RequestHandler = ReturnType<typeof connectNodeAdapter>;

type Request = Parameters<RequestHandler>[0];
type Response = Parameters<RequestHandler>[1];

/** Of one request, those that HTTP/2 writes as headers included; a browser or a gRPC client sends some twenty. */
export const MAX_HEADERS = 128;
/** Of all of a request's together. */
export const MAX_HEADER_BYTES = 32 * 1024;

function ignore(): void {
  // The peer is gone or the message is over: connect-node sees that for itself.
}

/** Connect-node builds a URL from the authority, outside of any promise, and throws when it cannot. */
function hasUsableAuthority(request: Request): boolean {
  const authority = request instanceof Http2ServerRequest ? request.authority : request.headers.host;
  return authority !== undefined && URL.canParse(`http://${authority}/`);
}

/** Whether nobody is there any more to read an answer. */
export function isGone(response: Response): boolean {
  return "stream" in response ? response.stream.destroyed : response.destroyed;
}

function fail(response: Response, error: unknown, onError: (error: unknown) => void): void {
  // Using a response whose peer is gone throws (Node issue 57416); that is no fault of the handler.
  if (isGone(response)) return;
  try {
    answerPlainly(response, 500, "internal error");
  } finally {
    onError(error);
  }
}

/** What is wrong with a request before anybody looks into it: the status of its answer, and why. */
function unfitness(request: Request): readonly [status: number, text: string] | undefined {
  const { rawHeaders } = request;
  const headers = rawHeaders.length / 2;
  if (headers > MAX_HEADERS) {
    return [431, `the request has ${String(headers)} headers; allowed are at most ${String(MAX_HEADERS)}`];
  }
  // Node leaves it to HTTP/2's settings, which hold once the client has said that it knows them.
  const bytes = rawHeaders.reduce((sum, { length }) => sum + length, 0);
  if (bytes > MAX_HEADER_BYTES) {
    const text = `the request's headers have ${String(bytes)} bytes; allowed are at most ${String(MAX_HEADER_BYTES)}`;
    return [431, text];
  }
  if (hasUsableAuthority(request)) return undefined;
  return [400, "the request names no usable host: send Host or :authority as HOST or HOST:PORT"];
}

/** What a {@link guardedHandler} is made from. */
export interface GuardOptions {
  readonly isTls: boolean;
  /** How long a request may go on after its answer. */
  readonly restMs: number;
  /** Hears faults of the handler, never those of clients. */
  readonly onError: (error: unknown) => void;
}

/**
 * Wraps a handler so that no request can end the process, whatever the handler throws and whenever
 * the peer goes away: Node throws from writes to a stream that is already destroyed, and emits errors
 * on requests and responses that nobody listens to any more. Nor can one go on for ever after its answer.
 */
export function guardedHandler(handler: RequestHandler, options: GuardOptions): RequestHandler {
  const { isTls, restMs, onError } = options;
  return (request, response) => {
    request.on("error", ignore);
    response.on("error", ignore);
    try {
      guardBrowsers(response, isTls);
      boundRest(request, response, restMs);
      const unfit = unfitness(request);
      if (unfit === undefined) handler(request, response);
      else answerPlainly(response, ...unfit);
    } catch (error) {
      fail(response, error, onError);
    }
  };
}
