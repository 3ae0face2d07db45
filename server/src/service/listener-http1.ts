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

/** The HTTP/1.1 half: Connect, gRPC-Web and plain HTTP for clients without HTTP/2. */
export function http1Side(handler: RequestHandler, timeouts: ListenerTimeouts): ProtocolSide {
  const sockets = new Set<Socket>();
  const running = new Set<ServerResponse>();
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
    running.add(response);
    response.once("close", () => {
      running.delete(response);
      if (draining) request.socket.destroySoon();
    });
    // Without a listener Node cuts a quiet connection even while the server is the one to speak.
    response.on("timeout", () => {
      const clientIsLate = !request.complete || request.socket.writableLength > 0;
      if (clientIsLate) request.socket.destroy();
    });
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
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
      server.emit("connection", socket);
    },
    drain() {
      draining = true;
      server.close();
      for (const response of running) response.shouldKeepAlive = false;
      const busy = new Set([...running].map((response) => response.req.socket));
      for (const socket of sockets) if (!busy.has(socket)) socket.destroy();
    },
  };
}
