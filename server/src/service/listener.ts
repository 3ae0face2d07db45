import { createServer, type Server, type Socket } from "node:net";
import { TrunklineError } from "../core/error.js";
import { authority, bind } from "./listener-bind.js";
import { onFirstBytes } from "./listener-first-bytes.js";
import { guardedHandler, type RequestHandler } from "./listener-handler.js";
import { http1Side, type ProtocolSide } from "./listener-http1.js";
import { http2Side } from "./listener-http2.js";
import { DEFAULT_TIMEOUTS, type ListenerTimeouts } from "./listener-timeouts.js";
import { renewTls, tlsFront, type TlsFiles } from "./listener-tls.js";

/** What a {@link Listener} is made from. */
export interface ListenerOptions {
  /** A name or address of this machine; `0.0.0.0` or `::` for all of them. */
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** With it the port speaks TLS only, and ALPN chooses the protocol. */
  readonly tls?: TlsFiles;
  /** Answers every request of either protocol. */
  readonly handler: RequestHandler;
  /** Hears faults of the handler and of the port, never those of clients; by default they are dropped. */
  readonly onError?: (error: unknown) => void;
  /** Connections above this number are closed at once. Default: no bound. */
  readonly maxConnections?: number;
  /** Replaces some of {@link DEFAULT_TIMEOUTS}. */
  readonly timeouts?: Partial<ListenerTimeouts>;
}

/** An open port. */
export interface Listener {
  /** `http://host:port` or `https://host:port`, with the port that was taken. */
  readonly url: string;
  readonly port: number;
  /** Open connections, silent ones included. */
  connections(): number;
  /**
   * Takes another certificate for the connections to come; those that are open live on. Does nothing on a plain port.
   *
   * @throws TrunklineError INVALID_FIELD where the files cannot be used; it goes on with those that it has
   */
  renewTls(files: TlsFiles): void;
  /**
   * Stops listening, tells clients to go elsewhere (GOAWAY, `Connection: close`), lets running
   * requests end for `graceMs` and then cuts them. Resolves when every connection is gone. A second
   * call can only shorten the grace.
   */
  close(options: { graceMs: number }): Promise<void>;
}

/** A longer timer would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

const SOCKET_OPTIONS = {
  allowHalfOpen: true,
  noDelay: true,
  // Lets the kernel find peers that vanished while nothing was to be sent.
  keepAlive: true,
  keepAliveInitialDelay: 30_000,
};

function ignore(): void {
  // A socket error is always followed by its close, which is what everything here waits for.
}

interface Sides {
  readonly http1: ProtocolSide;
  readonly http2: ProtocolSide;
}

function plainFront(timeouts: ListenerTimeouts, sides: Sides, undecided: Set<Socket>): Server {
  return createServer(SOCKET_OPTIONS, (socket) => {
    undecided.add(socket);
    socket.once("close", () => undecided.delete(socket));
    onFirstBytes(socket, timeouts.silenceMs, (protocol) => {
      undecided.delete(socket);
      sides[protocol].accept(socket);
    });
  });
}

function boundConnections(front: Server, max: number, onError: (error: unknown) => void): void {
  front.maxConnections = max;
  front.on("drop", () => {
    const message = `${String(max)} connections are open, which is as many as are allowed: one more was closed`;
    onError(new TrunklineError("OVERLOADED", message));
  });
}

/**
 * Opens one port for HTTP/1.1 and HTTP/2: over plain TCP the first bytes of a connection choose, under
 * TLS it is ALPN. Rejects with UNAVAILABLE when the port cannot be taken, with INVALID_FIELD when the
 * port number or the certificate cannot be used.
 */
export async function listen(options: ListenerOptions): Promise<Listener> {
  const onError = options.onError ?? ignore;
  const timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
  const isTls = options.tls !== undefined;
  const handler = guardedHandler(options.handler, { isTls, restMs: timeouts.restMs, onError });
  const sides = { http1: http1Side(handler, timeouts), http2: http2Side(handler, timeouts) };
  const sockets = new Set<Socket>();
  const undecided = new Set<Socket>();

  const tlsOptions = { ...SOCKET_OPTIONS, handshakeTimeout: timeouts.silenceMs };
  const secure =
    options.tls === undefined
      ? null
      : tlsFront(options.tls, tlsOptions, (protocol, socket) => sides[protocol].accept(socket));
  const front = secure ?? plainFront(timeouts, sides, undecided);
  if (options.maxConnections !== undefined) boundConnections(front, options.maxConnections, onError);
  // First of all listeners: a socket can fail before the others have looked at it.
  front.prependListener("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", ignore);
    socket.once("close", () => sockets.delete(socket));
  });
  const port = await bind(front, options.host, options.port);
  front.on("error", onError);
  const closed = new Promise<void>((resolve) => {
    front.once("close", resolve);
  });

  return {
    url: `${isTls ? "https" : "http"}://${authority(options.host, port)}`,
    port,
    connections: () => sockets.size,
    renewTls: (files) => {
      if (secure !== null) renewTls(secure, files);
    },
    async close({ graceMs }) {
      front.close();
      for (const socket of undecided) socket.destroy();
      sides.http1.drain();
      sides.http2.drain();
      const cut = (): void => {
        for (const socket of sockets) socket.destroy();
      };
      const deadline = setTimeout(cut, Math.min(graceMs, MAX_TIMER_MS));
      await closed;
      // A server counts a connection as gone one turn before its socket says so.
      await Promise.all(
        Array.from(sockets, (socket) => new Promise((resolve) => socket.once("close", resolve))),
      );
      clearTimeout(deadline);
    },
  };
}
