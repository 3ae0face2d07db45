import { create } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import {
  HeartbeatSchema,
  HelloSchema,
  WorkerService,
  WorkRequestSchema,
  type Heartbeat,
  type WorkRequest,
  type WorkResponse,
} from "@trunkline/proto/worker";
import { FrameStream } from "./frame-stream.js";
import { LIMITS } from "./limits.js";
import type { OutboxItem } from "./outbox.js";
import type { Endpoint } from "./transport.js";
import type { WorkCarrier, WorkCarrierOwner } from "./work-carrier.js";

/** The interval when a server names none. */
const DEFAULT_INTERVAL_MS = 5_000;

/** What a claim's id takes in a frame, tag and length included. */
const CLAIM_ID_BYTES = 40;

type Item = OutboxItem | { readonly kind: "accepted"; readonly claimId: string; readonly bytes: number };

/**
 * One `Work` stream: says hello, then puts what is to be said into frames in the order in which it was
 * given. Before its welcome it sends grants only.
 */
export class WorkStream implements WorkCarrier {
  readonly #owner: WorkCarrierOwner;
  readonly #frames: FrameStream<WorkRequest, WorkResponse>;
  readonly #named = new Set<string>();
  /** The server's heartbeat interval, from the welcome on. */
  intervalMs = DEFAULT_INTERVAL_MS;
  #queue: Item[] = [];
  #helloSent = false;
  #welcomed = false;
  #grant = 0;
  #heartbeatDue = false;
  #drainDue = false;

  constructor(endpoint: Endpoint, owner: WorkCarrierOwner) {
    this.#owner = owner;
    const connection = endpoint.connect();
    const client = createClient(WorkerService, connection.transport);
    this.#frames = new FrameStream<WorkRequest, WorkResponse>({
      connection,
      call: (frames) => client.work(frames),
      next: () => this.#next(),
      onFrame: (frame) => {
        this.#onFrame(frame);
      },
      onBeat: () => {
        if (owner.isActive(this)) this.heartbeat();
      },
      onEnd: (cause) => {
        owner.onEnd(this, cause);
      },
    });
  }

  /** Whether this stream's hello named a claim, and so accepted it. */
  hasNamed(claimId: string): boolean {
    return this.#named.has(claimId);
  }

  /** Says that a claim was received and will be run. */
  accept(claimId: string): void {
    this.#push({ kind: "accepted", claimId, bytes: CLAIM_ID_BYTES });
  }

  /** Sends an item of the outbox. */
  send(item: OutboxItem): void {
    this.#push(item);
  }

  /** Adds to this stream's credit. What is free at its hello is counted there. */
  grant(slots: number): void {
    if (!this.#helloSent) return;
    this.#grant += slots;
    this.#frames.wake();
  }

  heartbeat(): void {
    this.#heartbeatDue = true;
    this.#frames.wake();
  }

  /** A stream has one hello. */
  greetAgain(): boolean {
    return false;
  }

  drain(): void {
    this.#drainDue = true;
    this.#frames.wake();
  }

  /** Sends what is ready now. */
  flush(): void {
    this.#frames.flush();
  }

  rest(): void {
    // It is replaced after a goaway alone, which no claim follows.
  }

  /** The server has ended it, or does when all is said on it. */
  replaced(): void {
    // Nothing is left to do.
  }

  /** Closes the sending half; the server then ends the stream. */
  end(): void {
    this.#frames.end();
  }

  /** Ends the stream and its connection at once. */
  drop(cause: Error): void {
    this.#frames.drop(cause);
  }

  #push(item: Item): void {
    this.#queue.push(item);
    this.#frames.wake();
  }

  #onFrame(frame: WorkResponse): void {
    if (frame.welcome !== undefined && !this.#welcomed) {
      this.#welcomed = true;
      const { heartbeatInterval } = frame.welcome;
      if (heartbeatInterval !== undefined) this.intervalMs = durationMs(heartbeatInterval);
      this.#frames.beat(this.intervalMs);
      this.#owner.onWelcome(this, frame.welcome);
    }
    this.#owner.onFrame(this, frame);
    this.#frames.wake();
  }

  #next(): WorkRequest | undefined {
    const frame = create(WorkRequestSchema);
    if (!this.#helloSent) {
      this.#helloSent = true;
      frame.hello = create(HelloSchema, this.#owner.buildHello(this));
      for (const { claimId } of frame.hello.claims) this.#named.add(claimId);
      return frame;
    }
    let empty = true;
    if (this.#welcomed) empty = !this.#fill(frame);
    if (this.#grant > 0) {
      frame.grant = this.#grant;
      this.#grant = 0;
      empty = false;
    }
    return empty ? undefined : frame;
  }

  /** Moves what is ready into the frame, up to its size; whether there was anything. */
  #fill(frame: WorkRequest): boolean {
    let bytes = 0;
    let taken = 0;
    for (const item of this.#queue) {
      if (taken > 0 && bytes + item.bytes > LIMITS.frameTargetBytes) break;
      put(frame, item);
      bytes += item.bytes;
      taken++;
    }
    this.#queue = taken === this.#queue.length ? [] : this.#queue.slice(taken);
    if (this.#heartbeatDue) {
      this.#heartbeatDue = false;
      frame.heartbeat = this.#heartbeat();
    }
    // What was queued before it goes first.
    if (this.#drainDue && this.#queue.length === 0) {
      this.#drainDue = false;
      frame.drain = { $typeName: "trunkline.v1.Drain" };
    }
    return taken > 0 || frame.heartbeat !== undefined || frame.drain !== undefined;
  }

  #heartbeat(): Heartbeat {
    return create(HeartbeatSchema, this.#owner.buildHeartbeat());
  }
}

function put(frame: WorkRequest, item: Item): void {
  switch (item.kind) {
    case "accepted":
      frame.accepted.push(item.claimId);
      break;
    case "deferral":
      frame.deferrals.push(item.deferral);
      break;
    case "answer":
      frame.answers.push(item.answer);
      break;
    case "release":
      frame.releases.push(item.claimId);
      break;
  }
}
