import { Client, type ChannelCredentials, type ClientDuplexStream, type Metadata } from "@grpc/grpc-js";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import {
  DrainSchema,
  HeartbeatSchema,
  WorkerService,
  WorkRequestSchema,
  WorkResponseSchema,
  type Claim,
  type WorkRequest,
  type WorkResponse,
} from "@trunkline/proto/worker";
import type { Item } from "./outbox.js";
import { CLAIM_ID_BYTES, type Session } from "./session.js";

/** The largest frame that either side sends. */
const MAX_FRAME_BYTES = 4_194_304;
/** A frame is closed at this size, unless one item is larger. */
const FULL_FRAME_BYTES = 262_144;
/** How long a stream may take from its opening to its welcome. */
const WELCOME_TIMEOUT_MS = 10_000;
/** How long after its deadline a stream is left that said goaway and did not end. */
const GOAWAY_SLACK_MS = 5_000;
const DEFAULT_HEARTBEAT_MS = 5_000;

const WORK_PATH = `/${WorkerService.typeName}/${WorkerService.method.work.name}`;

const serialize = (frame: WorkRequest): Buffer => {
  const bytes = toBinary(WorkRequestSchema, frame);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
};

const deserialize = (bytes: Buffer): WorkResponse =>
  fromBinary(WorkResponseSchema, bytes, { readUnknownFields: false });

/** Where a stream goes, and with which headers. */
export interface Target {
  readonly address: string;
  readonly credentials: ChannelCredentials;
  readonly metadata: Metadata;
}

/** One Work stream, on a connection of its own. */
export class Stream {
  queue: Item[] = [];
  /** Claims that its hello named. */
  readonly named = new Set<string>();
  /** Slots that became free and were not granted yet. */
  grant = 0;
  greeted = false;
  welcomed = false;
  drainDue = false;
  drained = false;
  closing = false;
  /** The server said goaway. */
  replaced = false;
  /** Why it is over, or is to be replaced. */
  error: unknown;
  readonly openedAt = performance.now();
  /** Resolves when the next stream is wanted: after a goaway, or at the end. */
  readonly left: Promise<void>;
  #leave = (): void => {};

  readonly #session: Session;
  readonly #rpc: ClientDuplexStream<WorkRequest, WorkResponse>;
  /** A frame is on its way, or about to be made. */
  #busy = false;
  #over = false;
  #dropped: unknown;
  #beatDue = false;
  #heard = false;
  #late: NodeJS.Timeout;
  #beats: NodeJS.Timeout | undefined;

  constructor(session: Session, { address, credentials, metadata }: Target) {
    this.#session = session;
    this.left = new Promise((resolve) => (this.#leave = resolve));
    const client = new Client(address, credentials, {
      "grpc.max_receive_message_length": MAX_FRAME_BYTES,
      // Its own 64 KiB are one round trip for each, however large an input is (3).
      "grpc-node.flow_control_window": MAX_FRAME_BYTES,
      // Without it this would share the connection of the stream before (9).
      "grpc.use_local_subchannel_pool": 1,
      // A hello says what is so when it is sent: the next stream makes its own.
      "grpc.enable_retries": 0,
    });
    this.#rpc = client.makeBidiStreamRequest(WORK_PATH, serialize, deserialize, metadata);
    this.#rpc.on("error", () => {}); // the loop below gets it too, but not when it comes after the last frame
    this.#late = setTimeout(() => this.drop(new Error("the server gave no welcome")), WELCOME_TIMEOUT_MS);
    session.opened(this);
    this.poke();
    void this.#read().finally(() => client.close());
  }

  /** Gives the stream up, and its connection with it. */
  drop(reason: unknown): void {
    this.#dropped ??= reason;
    this.#rpc.cancel();
  }

  /** Another stream was welcomed: what is left to say is said there (9). */
  retire(): void {
    this.queue = [];
    this.drainDue = this.#beatDue = false;
  }

  /** Sends what is ready, frame by frame; more gathers while one is on its way. */
  poke(): void {
    if (this.#busy) return;
    this.#busy = true;
    // Not at once: what else this turn of the event loop brings goes into the same frame.
    setImmediate(() => {
      if (this.#over) return;
      const { frame, accepted } = this.#next();
      if (frame !== undefined) {
        this.#rpc.write(frame, () => {
          this.#busy = false;
          this.poke();
        });
        // Only now, when their acceptance is on its way, may handlers start (2).
        this.#session.accepted(accepted);
      } else if (this.closing) {
        this.#rpc.end(); // the loop of #read sees how it ends; nothing is sent any more
      } else {
        this.#busy = false;
      }
    });
  }

  async #read(): Promise<void> {
    try {
      for await (const frame of this.#rpc as AsyncIterable<WorkResponse>) this.#receive(frame);
      this.error = new Error("the server ended the stream");
    } catch (error) {
      this.error = this.#dropped ?? error; // what it was dropped for, instead of CANCELLED
    }
    this.#over = true;
    clearTimeout(this.#late);
    clearInterval(this.#beats);
    this.#session.ended(this);
    this.#leave();
  }

  #receive(frame: WorkResponse): void {
    const { welcome, drained, goaway } = frame;
    this.#heard = true;
    if (welcome !== undefined && !this.welcomed) {
      clearTimeout(this.#late);
      this.#beat(
        (welcome.heartbeatInterval && durationMs(welcome.heartbeatInterval)) || DEFAULT_HEARTBEAT_MS,
      );
    }
    if (drained !== undefined) this.drained = true;
    this.#session.apply(this, frame);
    if (goaway !== undefined && !this.replaced) {
      this.replaced = true;
      this.error = new Error(`the server said goaway: ${goaway.message}`);
      const deadlineMs = goaway.deadline ? durationMs(goaway.deadline) : 0;
      clearTimeout(this.#late);
      this.#late = setTimeout(
        () => this.drop(new Error("the server did not go away")),
        deadlineMs + GOAWAY_SLACK_MS,
      );
      this.#leave();
    }
  }

  /** Makes the next frame; none when there is nothing to say. Until the welcome that is grants only (1). */
  #next(): { frame?: WorkRequest; accepted: Claim[] } {
    const accepted: Claim[] = [];
    if (!this.greeted) {
      this.greeted = true;
      return { frame: create(WorkRequestSchema, { hello: this.#session.hello(this) }), accepted };
    }
    const talks = this.welcomed && (this.#beatDue || this.drainDue || this.queue.length > 0);
    if (this.grant === 0 && !talks) return { accepted };
    const frame = create(WorkRequestSchema, { grant: this.grant });
    this.grant = 0;
    if (talks) this.#fill(frame, accepted);
    return { frame, accepted };
  }

  /** Moves what is ready into a frame, up to its size. */
  #fill(frame: WorkRequest, accepted: Claim[]): void {
    let bytes = 0;
    if (this.#beatDue) {
      this.#beatDue = false;
      const claims = this.#session.claimIds();
      frame.heartbeat = create(HeartbeatSchema, { claims });
      bytes = claims.length * CLAIM_ID_BYTES;
    }
    let taken = 0;
    for (const item of this.queue) {
      if (bytes > 0 && bytes + item.size > FULL_FRAME_BYTES) break;
      bytes += item.size;
      taken++;
      if (item.kind === "accept") {
        frame.accepted.push(item.claimId);
        accepted.push(item.claim);
      } else if (item.kind === "deferral") frame.deferrals.push(item.deferral);
      else if (item.kind === "answer") frame.answers.push(item.answer);
      else frame.releases.push(item.claimId);
    }
    this.queue.splice(0, taken);
    // What was to be said before it goes first.
    if (this.drainDue && this.queue.length === 0) {
      this.drainDue = false;
      frame.drain = create(DrainSchema);
    }
  }

  /** Makes a heartbeat due in every interval, and drops a connection on which nothing was heard for three (8). */
  #beat(intervalMs: number): void {
    // Ticks are counted, not time: a process that stood still itself has had no chance to hear anything.
    let silent = 0;
    this.#beats = setInterval(() => {
      this.#beatDue = this.#session.isActive(this);
      // One that was replaced gets no heartbeat, and so has no ack to send: its deadline bounds it (9).
      silent = this.#heard || (this.replaced && !this.#beatDue) ? 0 : silent + 1;
      this.#heard = false;
      if (silent >= 3) this.drop(new Error("the server was silent for three heartbeat intervals"));
      else this.poke();
    }, intervalMs);
  }
}
