import { IncomingMessage } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { LIMITS } from "../core/limits.js";
import type { RequestHandler } from "./listener-handler.js";

type Request = Parameters<RequestHandler>[0];
type Response = Parameters<RequestHandler>[1];

/** What an honest client may have on its way when it is answered early: one whole message. */
const REST_BYTES = LIMITS.frameBytes;
/** How long a client that has its answer may take to end its half of the stream. */
const LINGER_MS = 1_000;

/**
 * Bounds what a client still sends of a request that has its answer. In HTTP/2 its stream is closed. In HTTP/1.1 the
 * rest is read and dropped, since a connection that is closed before may take the answer with it. One that goes on for
 * longer than `restMs` is cut; one of too many bytes is no longer read, and cut a little later.
 */
export function boundRest(request: Request, response: Response, restMs: number): void {
  if ("stream" in response) {
    closeAfterAnswer(request, response.stream);
  } else {
    // Its rest will not be read to the end: nothing may follow on the connection, and the client has to know.
    if (Number(request.headers["content-length"]) > REST_BYTES) response.shouldKeepAlive = false;
    // Before Node's own listener, which would read on without end.
    response.prependListener("finish", () => {
      if (request instanceof IncomingMessage && !request.complete) dropRest(request, restMs);
    });
  }
}

function closeAfterAnswer(request: Request, stream: ServerHttp2Stream): void {
  // A client that goes away while it is answered; Node waits for the rest of the answer to be sent.
  stream.once("aborted", () => setImmediate(() => stream.destroy()));
  stream.once("finish", () => dropUnread(stream));
  // A reset before that would take the trailers along.
  stream.once("wantTrailers", () => {
    if (request.complete) return;
    const closeUnlessEnded = (): void => {
      if (!request.complete) letGo(stream);
    };
    // Nor at once: one that overtakes the trailers in the client's own reading takes the answer with it. And a process
    // that stood still runs its timers before it reads what came meanwhile.
    const timer = setTimeout(() => setImmediate(closeUnlessEnded), LINGER_MS);
    stream.once("close", () => clearTimeout(timer));
  });
}

/**
 * Takes what nobody reads any more: Node keeps a stream of which something is unread, and all that hangs on it, for as
 * long as its connection lasts.
 */
function dropUnread(stream: ServerHttp2Stream): void {
  stream.removeAllListeners("data");
  dropUpTo(REST_BYTES, stream, () => {
    // What is not read stops its sender by the window.
    stream.removeAllListeners("data").pause();
    setTimeout(() => letGo(stream), LINGER_MS);
  });
  stream.resume();
}

function letGo(stream: ServerHttp2Stream): void {
  stream.close(constants.NGHTTP2_NO_ERROR);
  stream.removeAllListeners("data").resume();
}

function dropRest(request: IncomingMessage, restMs: number): void {
  const { socket } = request;
  const cut = (): void => {
    socket.destroy();
  };
  let late = setTimeout(cut, restMs);
  const read = endHalfOnly(socket);
  // A request that somebody has read of is not taken over by Node.
  request.read(0);
  dropUpTo(REST_BYTES, request, () => {
    // The sender stops when nothing is read, and comes to read its answer. A cut at once would take that along.
    request.removeAllListeners("data").pause();
    clearTimeout(late);
    late = setTimeout(cut, LINGER_MS);
  });
  request.once("close", () => {
    clearTimeout(late);
    read();
  });
}

/** How many rests are still read of each connection: of one request, or of that and the next. */
const unread = new WeakMap<Socket, number>();

/**
 * Node destroys a connection that is not kept right after its answer: until the rest is read, when the result is
 * called, only this half of it ends.
 */
function endHalfOnly(socket: Socket): () => void {
  unread.set(socket, (unread.get(socket) ?? 0) + 1);
  socket.destroySoon = () => socket.end();
  return () => {
    const others = (unread.get(socket) ?? 1) - 1;
    unread.set(socket, others);
    if (others > 0) return;
    // The method of all sockets is there again.
    Reflect.deleteProperty(socket, "destroySoon");
    if (socket.writableEnded) socket.destroySoon();
  };
}

function dropUpTo(bytes: number, body: Readable, tooMuch: () => void): void {
  let left = bytes;
  body.on("data", ({ length }: Buffer) => {
    left -= length;
    if (left < 0) tooMuch();
  });
}
