import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { MAX_HEADER_BYTES, type RequestHandler } from "./listener-handler.js";
import type { ListenerTimeouts } from "./listener-timeouts.js";

/** One protocol's half of the listener: it takes sockets, and lets go of them when it drains. */
export interface ProtocolSide {
  /** Takes over a socket whose next bytes are the first of its protocol; destroys it after a drain. */
  accept(socket: Socket): void;
  /** Ends idle connections now and busy ones after their last answer; clients are told in their protocol's way. */
  drain(): void;
}

/**
 * Ends the answers that wait for those before them, on a connection that has gone: Node tells only the one whose turn
 * it was. The others would be written to, counted and kept for ever.
 */
function endUnsent(responses: ReadonlySet<ServerResponse>): void {
  for (const response of responses) {
    const gone = new Error("the client went away");
    response.destroy(gone);
    // Whoever waits until something has been written hears of nothing else.
    response.emit("error", gone);
    response.emit("close");
  }
}

/**
 * Cuts the connection when nothing has moved for long and it is the client's turn. Without a listener Node cuts a quiet
 * one even while the server is the one to speak.
 */
function cutLate(request: IncomingMessage, response: ServerResponse, running: ReadonlySet<unknown>): void {
  response.on("timeout", () => {
    // Where much waits for its turn Node reads nothing, and would not hear that the client has gone.
    const isWaitedFor = running.size > 1;
    const clientIsLate = !request.complete || request.socket.writableLength > 0 || isWaitedFor;
    if (clientIsLate) request.socket.destroy();
  });
}

/** The HTTP/1.1 half: Connect, gRPC-Web and plain HTTP for clients without HTTP/2. */
export function http1Side(handler: RequestHandler, timeouts: ListenerTimeouts): ProtocolSide {
  /** With the answers that are not over: several where a client sends its requests without waiting. */
  const connections = new Map<Socket, Set<ServerResponse>>();
  let draining = false;

  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: timeouts.headersMs,
    // Node would measure it over the whole request and so cut every long stream.
    requestTimeout: 0,
    keepAliveTimeout: timeouts.keepAliveMs,
    connectionsCheckingInterval: Math.max(1, Math.floor(timeouts.headersMs / 3)),
  });
  server.timeout = timeouts.stalledMs;
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    const running = connections.get(request.socket);
    // It was read of a connection that has gone since.
    if (running === undefined) return;
    running.add(response);
    response.once("close", () => {
      running.delete(response);
      if (draining) request.socket.destroySoon();
    });
    cutLate(request, response, running);
    if (draining) response.shouldKeepAlive = false;
    handler(request, response);
  });
  // The server itself never listens, and only this event makes it watch its timeouts.
  server.emit("listening");

  return {
    accept(socket) {
      if (draining) {
        socket.destroy();
        return;
      }
      const running = new Set<ServerResponse>();
      connections.set(socket, running);
      socket.once("close", () => {
        connections.delete(socket);
        // Node's own listeners come first.
        setImmediate(() => endUnsent(running));
      });
      server.emit("connection", socket);
    },
    drain() {
      draining = true;
      server.close();
      for (const [socket, running] of connections) {
        for (const response of running) response.shouldKeepAlive = false;
        if (running.size === 0) socket.destroy();
      }
    },
  };
}
