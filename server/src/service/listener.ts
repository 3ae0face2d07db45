import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { TrunklineError } from "../core/error.js";
import { authority, bind, messageOf } from "./listener-bind.js";
import { onFirstBytes } from "./listener-first-bytes.js";
import { guardedHandler, type RequestHandler } from "./listener-handler.js";
import { http1Side, type ProtocolSide } from "./listener-http1.js";
import { http2Side } from "./listener-http2.js";
import { DEFAULT_TIMEOUTS, type ListenerTimeouts } from "./listener-timeouts.js";

/** The contents of two PEM files: a certificate (with its chain, if any) and its private key. */
export interface TlsFiles {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

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

function tlsFront(tls: TlsFiles, timeouts: ListenerTimeouts, sides: Sides): Server {
  const options = {
    ...SOCKET_OPTIONS,
    ALPNProtocols: ["h2", "http/1.1"],
    handshakeTimeout: timeouts.silenceMs,
  };
  try {
    const front = createTlsServer({ ...options, cert: tls.cert, key: tls.key }, (socket) => {
      socket.on("error", ignore);
      sides[socket.alpnProtocol === "h2" ? "http2" : "http1"].accept(socket);
    });
    // A handshake that takes too long is only reported, and would stay open.
    return front.on("tlsClientError", (_error, socket) => socket.destroy());
  } catch (cause) {
    throw new TrunklineError(
      "INVALID_FIELD",
      `tls: the certificate and key cannot be used (${messageOf(cause)}); allowed: a PEM certificate and its PEM private key`,
      { cause, metadata: { field: "tls" } },
    );
  }
}

/**
 * Opens one port for HTTP/1.1 and HTTP/2: over plain TCP the first bytes of a connection choose, under
 * TLS it is ALPN. Rejects with UNAVAILABLE when the port cannot be taken, with INVALID_FIELD when the
 * port number or the certificate cannot be used.
 */
export async function listen(options: ListenerOptions): Promise<Listener> {
  const onError = options.onError ?? ignore;
  const timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
  const handler = guardedHandler(options.handler, onError);
  const sides = { http1: http1Side(handler, timeouts), http2: http2Side(handler, timeouts) };
  const sockets = new Set<Socket>();
  const undecided = new Set<Socket>();

  const front =
    options.tls === undefined
      ? plainFront(timeouts, sides, undecided)
      : tlsFront(options.tls, timeouts, sides);
  if (options.maxConnections !== undefined) front.maxConnections = options.maxConnections;
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
    url: `${options.tls === undefined ? "http" : "https"}://${authority(options.host, port)}`,
    port,
    connections: () => sockets.size,
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
