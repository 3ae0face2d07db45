import { once } from "node:events";
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type SecureServerOptions,
  type ServerHttp2Session,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { ConnectError, HandlerContext, ServiceImpl } from "@connectrpc/connect";
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

/** Values that are put in by one side and awaited by the other. */
class Queue<T> {
  readonly #values: T[] = [];
  readonly #takers: { resolve: (value: T) => void; reject: (error: Error) => void }[] = [];
  #closed: Error | undefined;

  put(value: T): void {
    const taker = this.#takers.shift();
    if (taker === undefined) this.#values.push(value);
    else taker.resolve(value);
  }

  close(error: Error): void {
    this.#closed = error;
    for (const { reject } of this.#takers.splice(0)) reject(error);
  }

  take(): Promise<T> {
    if (this.#values.length > 0) return Promise.resolve(this.#values.shift() as T);
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    return new Promise((resolve, reject) => this.#takers.push({ resolve, reject }));
  }

  /** Takes what is there without waiting. */
  drain(): T[] {
    return this.#values.splice(0);
  }
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

  async *frames(): AsyncGenerator<Down> {
    for (;;) {
      const next = await this.#down.take();
      if (next === "end") return;
      if (next instanceof Error) throw next;
      yield next;
    }
  }
}

export type WorkPeer = PeerStream<WorkRequest, WorkResponse>;
export type DrivePeer = PeerStream<DriveRequest, DriveResponse>;

/** What the test answers to unary calls. */
export interface Unary {
  calls?: Partial<ServiceImpl<typeof CallService>>;
  runs?: Partial<ServiceImpl<typeof RunService>>;
  tasks?: Partial<ServiceImpl<typeof TaskService>>;
  toolsets?: Partial<ServiceImpl<typeof ToolsetService>>;
}

/** How often heartbeats are due in these tests. */
export const INTERVAL_MS = 100;

/** A server that says what the test tells it to, over real sockets. */
export class Peer implements AsyncDisposable {
  readonly #unary: Unary;
  readonly #sessions = new Set<ServerHttp2Session>();
  readonly #work = new Queue<WorkPeer>();
  readonly #drive = new Queue<DrivePeer>();
  readonly #tls: SecureServerOptions | undefined;
  #server: Http2Server | Http2SecureServer | undefined;
  #port = 0;
  /** While set, streams end with it at once. */
  refusal: ConnectError | undefined;
  /** How many connections were made. */
  connections = 0;

  private constructor(unary: Unary, tls: SecureServerOptions | undefined) {
    this.#unary = unary;
    this.#tls = tls;
  }

  static async start(unary: Unary = {}, tls?: SecureServerOptions): Promise<Peer> {
    const peer = new Peer(unary, tls);
    await peer.listen();
    return peer;
  }

  get url(): string {
    return `${this.#tls === undefined ? "http" : "https"}://127.0.0.1:${this.#port}`;
  }

  /** The next `Work` stream that is opened. */
  work(): Promise<WorkPeer> {
    return this.#work.take();
  }

  /** The next `Work` stream, its hello, and a welcome for it. */
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
    for (const session of this.#sessions) session.destroy();
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
    const server = this.#tls === undefined ? createServer(adapter) : createSecureServer(this.#tls, adapter);
    server.on("session", (session) => {
      this.connections++;
      this.#sessions.add(session);
      session.on("close", () => this.#sessions.delete(session));
    });
    server.listen(this.#port, "127.0.0.1");
    await once(server, "listening");
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #routes(router: Parameters<Parameters<typeof connectNodeAdapter>[0]["routes"]>[0]): void {
    router.service(WorkerService, {
      work: (requests, context) => {
        if (this.refusal !== undefined) throw this.refusal;
        const stream = new PeerStream<WorkRequest, WorkResponse>(requests, context, (frame) => ({
          ...create(WorkResponseSchema),
          ...frame,
        }));
        this.#work.put(stream);
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
