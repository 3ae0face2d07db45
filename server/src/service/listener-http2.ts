import {
  createServer,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type Http2Session,
  type ServerOptions,
} from "node:http2";
import type { Socket } from "node:net";
import { MAX_HEADER_BYTES, MAX_HEADERS, type RequestHandler } from "./listener-handler.js";
import type { ProtocolSide } from "./listener-http1.js";
import type { ListenerTimeouts } from "./listener-timeouts.js";

/** Of one stream: 20 MiB/s at a round trip of 50 ms. */
const STREAM_WINDOW_BYTES = 1024 * 1024;
const SESSION_WINDOW_BYTES = 8 * 1024 * 1024;

/**
 * Node's defaults answer a burst of short or cancelled requests with ENHANCE_YOUR_CALM or GOAWAY:
 * 10 MB of queued data and streams a session, and lifetime counts of refused streams and of frames
 * that crossed a reset. Long sessions with thousands of waits are the normal case here.
 */
const SESSION_OPTIONS: ServerOptions & { streamResetBurst: number; streamResetRate: number } = {
  maxHeaderListPairs: MAX_HEADERS,
  maxSessionMemory: 256,
  maxSessionInvalidFrames: 1_000_000,
  maxSessionRejectedStreams: 10_000,
  // Node 20 has no such options and keeps to 1,000 resets and 33 a second; later versions take them.
  streamResetBurst: 10_000,
  streamResetRate: 1_000,
  settings: {
    enableConnectProtocol: false,
    initialWindowSize: STREAM_WINDOW_BYTES,
    maxConcurrentStreams: 10_000,
    maxHeaderListSize: MAX_HEADER_BYTES,
  },
};

function greet(session: Http2Session, silenceMs: number): void {
  // The preface alone opens a session; one that never sends its settings would stay for ever.
  const deadline = setTimeout(() => {
    session.destroy();
  }, silenceMs);
  const stop = (): void => {
    clearTimeout(deadline);
  };
  session.once("remoteSettings", stop);
  session.once("close", stop);
  if (!session.destroyed) session.setLocalWindowSize(SESSION_WINDOW_BYTES);
}

/**
 * Cuts a session whose peer is gone or was given up. Node does not read on from a peer that has broken the protocol,
 * nor tell anybody, and such a connection would keep its file descriptor for ever.
 */
function watch(session: Http2Session, socket: Socket, quietMs: number): void {
  let seen = socket.bytesRead;
  let asked = false;
  const cutIfStillQuiet = (): void => {
    if (socket.bytesRead !== seen) return;
    session.destroy();
    socket.destroy();
  };
  const timer = setInterval(() => {
    if (socket.bytesRead !== seen) {
      seen = socket.bytesRead;
      asked = false;
    } else if (asked || session.destroyed) {
      // A process that was stopped runs its timers before it reads what came meanwhile.
      setImmediate(cutIfStillQuiet);
    } else {
      asked = true;
      // The answer is bytes that are read; it is false where the session cannot send any more.
      session.ping(() => undefined);
    }
  }, quietMs);
  timer.unref();
  socket.once("close", () => {
    clearInterval(timer);
  });
}

/**
 * Has the handler take what Node would answer by itself: outside of everything, so that a client which goes away at
 * once would end the process.
 */
function takeAll(server: Http2Server, handler: RequestHandler): void {
  server.on("connect", handler);
  server.on("checkExpectation", handler);
  server.on("checkContinue", (request: Http2ServerRequest, response: Http2ServerResponse) => {
    if (!response.stream.destroyed) response.writeContinue();
    handler(request, response);
  });
}

/** The HTTP/2 half: gRPC, and Connect and gRPC-Web with streams in both directions. */
export function http2Side(handler: RequestHandler, timeouts: ListenerTimeouts): ProtocolSide {
  const sessions = new Set<Http2Session>();
  let draining = false;

  const server = createServer(SESSION_OPTIONS);
  server.on("request", handler);
  takeAll(server, handler);
  server.on("session", (session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
    greet(session, timeouts.silenceMs);
  });

  return {
    accept(socket) {
      if (draining) {
        socket.destroy();
        return;
      }
      // A peer that ended its side can neither ask nor open windows any more, and its session would stay.
      socket.allowHalfOpen = false;
      const onSession = (session: Http2Session): void => {
        watch(session, socket, timeouts.quietMs);
      };
      // The session is made, and told of, while the socket is handed over.
      server.once("session", onSession);
      server.emit("connection", socket);
      server.off("session", onSession);
    },
    drain() {
      draining = true;
      // Closing the server would tell clients nothing; closing a session sends GOAWAY.
      for (const session of sessions) session.close();
    },
  };
}
