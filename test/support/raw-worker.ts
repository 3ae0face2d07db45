import { randomBytes, randomUUID } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import {
  WorkerService,
  WorkRequestSchema,
  type Ack,
  type Claim,
  type Revocation,
  type WorkRequest,
  type WorkResponse,
} from "@trunkline/proto/worker";
import { EventLog } from "./event-log.js";

/** What comes in frames, by its field. */
interface Received {
  readonly claims: Claim;
  readonly acks: Ack;
  readonly revoked: Revocation;
}

/** Who a worker says that it is. */
export interface WorkerIdentity {
  readonly sessionId: string;
  /** Of its process. */
  readonly nonce: string;
}

/** A worker that nobody has seen yet. */
export const newIdentity = (): WorkerIdentity => ({
  sessionId: randomUUID(),
  nonce: randomBytes(16).toString("hex"),
});

/** A worker that sends what the test gives it, whatever the SDK would think of that. */
export class RawWorker implements AsyncDisposable {
  /** Resolves when the stream is over; with what ended it, if that was an error. */
  readonly ended: Promise<unknown>;
  readonly #session: Http2SessionManager;
  readonly #frames = new EventLog<WorkResponse>();
  readonly #queue: WorkRequest[] = [];
  #wake: () => void = () => undefined;
  #closed = false;

  private constructor(url: string) {
    this.#session = new Http2SessionManager(url);
    const client = createClient(
      WorkerService,
      createGrpcTransport({ baseUrl: url, sessionManager: this.#session }),
    );
    this.ended = this.#read(client.work(this.#requests())).then(
      () => undefined,
      (error: unknown) => error,
    );
  }

  /** Says hello, as a new process or as the one that is named; resolves at the welcome. */
  static async connect(
    url: string,
    tools: readonly string[],
    slots = 100,
    who: WorkerIdentity = newIdentity(),
  ): Promise<RawWorker> {
    const worker = RawWorker.hello(url, tools, slots, who);
    await worker.frame("the welcome", ({ welcome }) => welcome !== undefined);
    return worker;
  }

  /** Says hello, naming these claims, and waits for nothing. */
  static hello(
    url: string,
    tools: readonly string[],
    slots: number,
    who: WorkerIdentity,
    named: readonly Claim[] = [],
  ): RawWorker {
    const worker = new RawWorker(url);
    const claims = named.map(({ claimId, callId }) => ({ claimId, callId }));
    worker.send({ hello: { ...who, worker: "raw", tools: [...tools], slots, claims } });
    return worker;
  }

  send(frame: MessageInitShape<typeof WorkRequestSchema>): void {
    this.#queue.push(create(WorkRequestSchema, frame));
    this.#wake();
  }

  /** The first frame that fits, whether it has come or is still to come. */
  frame(what: string, fits: (frame: WorkResponse) => boolean): Promise<WorkResponse> {
    return this.#frames.first(what, fits);
  }

  /** Everything of one kind that has come. */
  all<K extends keyof Received>(kind: K): Received[K][] {
    return this.#frames.all.flatMap((frame): Received[K][] => frame[kind] as Received[K][]);
  }

  /** Waits until there are so many of one kind. */
  async some<K extends keyof Received>(kind: K, count: number): Promise<Received[K][]> {
    await this.frame(`${count} ${kind}`, () => this.all(kind).length >= count);
    return this.all(kind);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#wake();
    this.#session.abort();
    await this.ended;
  }

  async *#requests(): AsyncGenerator<WorkRequest> {
    for (;;) {
      const next = this.#queue.shift();
      if (next !== undefined) yield next;
      else if (this.#closed) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async #read(frames: AsyncIterable<WorkResponse>): Promise<void> {
    for await (const frame of frames) this.#frames.add(frame);
  }
}
