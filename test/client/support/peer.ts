import { once } from "node:events";
import { createServer as createHttp1Server, type Server as Http1Server } from "node:http";
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type SecureServerOptions,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  CallService,
  DriveResponseSchema,
  type DriveRequest,
  type DriveResponse,
} from "@trunkline/proto/call";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import {
  WorkResponseSchema,
  WorkerService,
  type WorkRequest,
  type WorkResponse,
} from "@trunkline/proto/worker";
import { PollPeer } from "./poll-peer.js";
import { Queue } from "./queue.js";

/** A worker, as the test plays its server, whatever carries what they say. */
export interface WorkPeer {
  /** The first request's headers. */
  readonly header: Headers;
  /** Resolves when the worker has dropped it, or the test cut it. */
  readonly over: Promise<void>;
  /** The next frame. */
  next(): Promise<WorkRequest>;
  /** The next frame that fits; those before it are passed over. */
  until(fits: (frame: WorkRequest) => boolean): Promise<WorkRequest>;
  send(frame: Partial<WorkResponse>): void;
  /** Ends it in order; of a worker that polls, this server has nothing to end. */
  end(): void;
  /** Ends it with an error. */
  fail(error: ConnectError): void;
  /** Takes what comes, and says nothing any more. */
  fallSilent(): void;
  /** Waits for the worker to close it, and closes it as well. */
  farewell(): Promise<void>;
}

/** One stream of a client, as the test plays its server. */
export class PeerStream<Up, Down> {
  /** The request's headers. */
  readonly header: Headers;
  /** Resolves when the stream is over on this side. */
  readonly over: Promise<void>;
  readonly #up = new Queue<Up>();
  readonly #down = new Queue<Down | "end" | Error>();
  readonly #make: (frame: Partial<Down>) => Down;

  constructor(requests: AsyncIterable<Up>, context: HandlerContext, make: (frame: Partial<Down>) => Down) {
    this.header = context.requestHeader;
    this.#make = make;
    this.over = new Promise((resolve) => {
      const done = (): void => {
        this.#up.close(new Error("the stream is over"));
        resolve();
      };
      context.signal.addEventListener("abort", () => {
        this.#down.put("end");
        done();
      });
      void (async () => {
        try {
          for await (const frame of requests) {
            this.onUp?.(frame);
            this.#up.put(frame);
          }
        } catch {
          // Cut; the signal says so as well.
        }
        this.#up.close(new Error("the client has closed its half"));
        this.ended = true;
        this.#endedWaiters.forEach((each) => each());
      })();
    });
  }

  /** Sees each frame as it arrives. */
  onUp: ((frame: Up) => void) | undefined;
  /** Whether the client has closed its sending half. */
  ended = false;
  readonly #endedWaiters: (() => void)[] = [];

  /** Resolves when the client closes its sending half. */
  halfClosed(): Promise<void> {
    return this.ended ? Promise.resolve() : new Promise((resolve) => this.#endedWaiters.push(resolve));
  }

  /** The next frame. */
  next(): Promise<Up> {
    return this.#up.take();
  }

  /** The next frame that fits; those before it are passed over. */
  async until(fits: (frame: Up) => boolean): Promise<Up> {
    for (;;) {
      const frame = await this.#up.take();
      if (fits(frame)) return frame;
    }
  }

  /** What has arrived and was not read. */
  unread(): Up[] {
    return this.#up.drain();
  }

  send(frame: Partial<Down>): void {
    this.#down.put(this.#make(frame));
  }

  /** Ends the stream in order. */
  end(): void {
    this.#down.put("end");
  }

  /** Ends the stream with an error. */
  fail(error: ConnectError): void {
    this.#down.put(error);
  }

  fallSilent(): void {
    // It says nothing by itself.
  }

  async farewell(): Promise<void> {
    await this.halfClosed();
    this.end();
  }

  async *frames(): AsyncGenerator<Down> {
    for (;;) {
      const next = await this.#down.take();
      if (next === "end") return;
      if (next instanceof Error) throw next;
      yield next;
    }
  }
}

export type DrivePeer = PeerStream<DriveRequest, DriveResponse>;

/** What the test answers to unary calls. */
export interface Unary {
  calls?: Partial<ServiceImpl<typeof CallService>>;
  runs?: Partial<ServiceImpl<typeof RunService>>;
  tasks?: Partial<ServiceImpl<typeof TaskService>>;
  toolsets?: Partial<ServiceImpl<typeof ToolsetService>>;
}

/** What carries the sessions of workers: streams over HTTP/2, or single requests over HTTP/1.1. */
export const CARRIAGES = ["stream", "poll"] as const;

export type Carriage = (typeof CARRIAGES)[number];

/** How often heartbeats are due in these tests. */
export const INTERVAL_MS = 100;

/** What a connection of either version of HTTP has. */
interface Connection {
  destroy(): void;
  on(event: "close", listener: () => void): unknown;
}

/** A server that says what the test tells it to, over real sockets. */
export class Peer implements AsyncDisposable {
  readonly #unary: Unary;
  readonly #connections = new Set<Connection>();
  readonly #work = new Queue<WorkPeer>();
  readonly #drive = new Queue<DrivePeer>();
  readonly #tls: SecureServerOptions | undefined;
  readonly #carriage: Carriage;
  #server: Http1Server | Http2Server | Http2SecureServer | undefined;
  #polling: PollPeer | undefined;
  #port = 0;
  /** While set, streams end with it at once. */
  refusal: ConnectError | undefined;
  /** How many connections were made. */
  connections = 0;
  /** How many `Work` streams were opened, or how often a worker began to poll. */
  workers = 0;

  private constructor(unary: Unary, tls: SecureServerOptions | undefined, carriage: Carriage) {
    this.#unary = unary;
    this.#tls = tls;
    this.#carriage = carriage;
  }

  static async start(
    unary: Unary = {},
    tls?: SecureServerOptions,
    carriage: Carriage = "stream",
  ): Promise<Peer> {
    const peer = new Peer(unary, tls, carriage);
    await peer.listen();
    return peer;
  }

  get url(): string {
    return `${this.#tls === undefined ? "http" : "https"}://127.0.0.1:${this.#port}`;
  }

  /** The next `Work` stream that is opened, or the next worker that begins to poll. */
  work(): Promise<WorkPeer> {
    return this.#work.take();
  }

  /** The next of them, its hello, and a welcome for it. */
  async welcomeWork(welcome: MessageInitShape<typeof WorkResponseSchema>["welcome"] = {}) {
    const stream = await this.work();
    const { hello } = await stream.next();
    const frame = create(WorkResponseSchema, {
      welcome: { node: "peer", heartbeatInterval: durationFromMs(INTERVAL_MS), ...welcome },
    });
    stream.send(frame);
    return { stream, hello: hello! };
  }

  /** The next `Drive` stream that is opened. */
  drive(): Promise<DrivePeer> {
    return this.#drive.take();
  }

  /** The next `Drive` stream, with a welcome for it; its pings are answered unless it is to be silent. */
  async welcomeDrive(options: { silent?: boolean } = {}): Promise<DrivePeer> {
    const stream = await this.drive();
    await stream.next();
    if (options.silent !== true) {
      stream.onUp = ({ ping }) => {
        if (ping !== undefined) stream.send({ pong: ping });
      };
    }
    const welcome = { node: "peer", heartbeatInterval: durationFromMs(INTERVAL_MS) };
    stream.send(create(DriveResponseSchema, { welcome }));
    return stream;
  }

  /** Cuts all connections; new ones are taken. */
  cut(): void {
    this.#polling?.fail(new ConnectError("cut", Code.Unavailable));
    for (const connection of this.#connections) connection.destroy();
  }

  /** Cuts all connections and refuses new ones until {@link listen}. */
  async stop(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    const closed = once(server, "close");
    server.close();
    this.cut();
    await closed;
  }

  /** Takes connections, on the same port as before. */
  async listen(): Promise<void> {
    const adapter = connectNodeAdapter({ routes: (router) => this.#routes(router) });
    const server = this.#serve(adapter);
    server.on(this.#carriage === "poll" ? "connection" : "session", (connection: Connection) => {
      this.connections++;
      this.#connections.add(connection);
      connection.on("close", () => this.#connections.delete(connection));
    });
    server.listen(this.#port, "127.0.0.1");
    await once(server, "listening");
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #serve(adapter: ReturnType<typeof connectNodeAdapter>): Http1Server | Http2Server | Http2SecureServer {
    if (this.#carriage === "poll") return createHttp1Server(adapter);
    return this.#tls === undefined ? createServer(adapter) : createSecureServer(this.#tls, adapter);
  }

  #meet(worker: WorkPeer): void {
    this.workers++;
    this.#work.put(worker);
  }

  /** The worker that a request without hello is of. */
  #poller(): PollPeer["twins"] {
    if (this.#polling === undefined) throw new ConnectError("no session", Code.NotFound);
    return this.#polling.twins;
  }

  #routes(router: Parameters<Parameters<typeof connectNodeAdapter>[0]["routes"]>[0]): void {
    router.service(WorkerService, {
      claimCalls: (request, context) => {
        if (this.refusal !== undefined) throw this.refusal;
        // The SDK's first request of a carrier waits for nothing.
        const waits = request.wait === undefined || durationMs(request.wait) > 0;
        const drains = request.hello?.slots === 0;
        if (this.#polling === undefined || this.#polling.isOver || !(waits || drains)) {
          this.#polling = new PollPeer(context.requestHeader);
          this.#meet(this.#polling);
        }
        return this.#polling.twins.claimCalls(request, context);
      },
      heartbeat: (request, context) => this.#poller().heartbeat(request, context),
      answerCalls: (request, context) => this.#poller().answerCalls(request, context),
      deferCall: (request, context) => this.#poller().deferCall(request, context),
      releaseCalls: (request, context) => this.#poller().releaseCalls(request, context),
      work: (requests, context) => {
        if (this.refusal !== undefined) throw this.refusal;
        const stream = new PeerStream<WorkRequest, WorkResponse>(requests, context, (frame) => ({
          ...create(WorkResponseSchema),
          ...frame,
        }));
        this.#meet(stream);
        return stream.frames();
      },
    });
    router.service(CallService, {
      ...this.#unary.calls,
      drive: (requests, context) => {
        if (this.refusal !== undefined) throw this.refusal;
        const stream = new PeerStream<DriveRequest, DriveResponse>(requests, context, (frame) => ({
          ...create(DriveResponseSchema),
          ...frame,
        }));
        this.#drive.put(stream);
        return stream.frames();
      },
    });
    router.service(RunService, { ...this.#unary.runs });
    router.service(TaskService, { ...this.#unary.tasks });
    router.service(ToolsetService, { ...this.#unary.toolsets });
  }
}
