import { once } from "node:events";
import {
  createServer,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from "node:http2";
import type { AddressInfo } from "node:net";
import {
  Code,
  ConnectError,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
} from "@connectrpc/connect";
import {
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";
import { WorkerService, type WorkRequest, type WorkResponse } from "@trunkline/proto/worker";
import { Door, type DoorEvents, type Link } from "./door.js";
import { PeerStream, type PeerStreamEvents } from "./peer-stream.js";

/** Above what is allowed, so that a frame that is too large is seen, and said, as one. */
const READ_BYTES = 64 * 1024 * 1024;
/** As a server's that expects results of a mebibyte; HTTP/2's own windows of 64 KiB make them slow. */
const STREAM_WINDOW_BYTES = 1024 * 1024;
const SESSION_WINDOW_BYTES = 8 * 1024 * 1024;
const SERVER_OPTIONS = { maxSessionMemory: 256, settings: { initialWindowSize: STREAM_WINDOW_BYTES } };

/** What a {@link Peer} tells. */
export interface PeerEvents extends DoorEvents, PeerStreamEvents {
  onStream(stream: PeerStream): void;
  /** A stream was refused. */
  onRefusal(link: Link): void;
  /** Something was asked for that no worker needs. */
  onStray(path: string): void;
  /** A worker of another run was refused. */
  onStranger(link: Link): void;
}

/** How the key of every run begins. */
export const KEY_PREFIX = "conformance-";

/** Why streams are refused. */
export type Refusal = "UNAUTHENTICATED" | "PERMISSION_DENIED" | "UNAVAILABLE";

const CODES: Readonly<Record<Refusal, Code>> = {
  UNAUTHENTICATED: Code.Unauthenticated,
  PERMISSION_DENIED: Code.PermissionDenied,
  UNAVAILABLE: Code.Unavailable,
};

const linkKey = createContextKey<Link | undefined>(undefined, { description: "link" });

/** A server for workers, over real sockets, that does what a scenario tells it to and nothing by itself. */
export class Peer {
  readonly door: Door;
  /** While it is set, streams are refused with it. */
  refusal: Refusal | undefined;
  readonly #events: PeerEvents;
  readonly #key: string;
  readonly #server: Http2Server;
  readonly #sessions = new Set<ServerHttp2Session>();
  #streams = 0;

  /** @param key what this run's program was told, with {@link KEY_PREFIX} */
  constructor(events: PeerEvents, key: string) {
    this.#events = events;
    this.#key = key;
    this.door = new Door(events);
    this.#server = createServer(SERVER_OPTIONS, this.#handler());
    this.#server.on("session", (session) => {
      this.#sessions.add(session);
      session.once("close", () => this.#sessions.delete(session));
      if (!session.destroyed) session.setLocalWindowSize(SESSION_WINDOW_BYTES);
    });
  }

  /** Serves, on a free port. */
  async start(): Promise<void> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    // What Node documents of a TCP server.
    await this.door.open((this.#server.address() as AddressInfo).port);
  }

  async close(): Promise<void> {
    await this.door.shut();
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const session of this.#sessions) session.destroy();
    await closed;
  }

  #handler(): (request: Http2ServerRequest, response: Http2ServerResponse) => void {
    const router = createConnectRouter({
      acceptCompression: [compressionGzip, compressionBrotli],
      readMaxBytes: READ_BYTES,
      writeMaxBytes: READ_BYTES,
    }).service(WorkerService, { work: (requests, context) => this.#work(requests, context) });
    const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
    return (request, response) => {
      const handler = handlers.get(request.url);
      const link = this.door.linkFrom(request.stream.session?.socket.remotePort);
      if (handler === undefined) {
        this.#events.onStray(request.url);
        response.writeHead(404);
        response.end();
        return;
      }
      const values = createContextValues().set(linkKey, link);
      handler(universalRequestFromNodeRequest(request, response, undefined, values))
        .then((answer) => universalResponseToNodeResponse(answer, response))
        // A program that went away in the middle of an answer; its stream has said so.
        .catch(() => undefined);
    };
  }

  #work(requests: AsyncIterable<WorkRequest>, context: HandlerContext): AsyncIterable<WorkResponse> {
    const link = context.values.get(linkKey);
    if (link === undefined) throw new ConnectError("the connection has gone", Code.Unavailable);
    if (this.#isStranger(context.requestHeader.get("authorization") ?? "")) {
      this.#events.onStranger(link);
      throw refused("UNAUTHENTICATED");
    }
    if (this.refusal !== undefined) {
      this.#events.onRefusal(link);
      throw refused(this.refusal);
    }
    const stream = new PeerStream(++this.#streams, link, context, this.#events);
    this.#events.onStream(stream);
    return stream.run(requests);
  }

  /** Workers look for their server for ever, also those of a run that was killed, whose port this one may have got. */
  #isStranger(authorization: string): boolean {
    return authorization.startsWith(`Bearer ${KEY_PREFIX}`) && authorization !== `Bearer ${this.#key}`;
  }
}

function refused(refusal: Refusal): ConnectError {
  const message = `refused by the kit with ${refusal}`;
  const value = { code: CODES[refusal], reason: Reason[refusal], message };
  return new ConnectError(message, CODES[refusal], undefined, [{ desc: ProblemSchema, value }]);
}
