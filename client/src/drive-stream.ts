import { create } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import {
  CallService,
  DriveRequestSchema,
  type DriveRequest,
  type DriveResponse,
} from "@trunkline/proto/call";
import type { DriveCarrier, DriveCarrierOwner, DriveItem } from "./drive-carrier.js";
import { FrameStream } from "./frame-stream.js";
import { LIMITS } from "./limits.js";
import type { Endpoint } from "./transport.js";

/** The interval when a server names none. */
const DEFAULT_INTERVAL_MS = 5_000;

/** What a call's id takes in a frame, tag and length included. */
const CALL_ID_BYTES = 50;

/** Ping numbers are of 32 bits. */
const PING_LIMIT = 2 ** 32;

/** One `Drive` stream: puts what is to be said into frames in the order in which it was given. */
export class DriveStream implements DriveCarrier {
  readonly delivers = true;
  readonly #frames: FrameStream<DriveRequest, DriveResponse>;
  /** The server's heartbeat interval, from the welcome on. */
  intervalMs = DEFAULT_INTERVAL_MS;
  #queue: DriveItem[] = [];
  #started = false;
  #welcomed = false;
  #sent = false;
  #pings = 0;
  #pingDue = false;

  constructor(endpoint: Endpoint, owner: DriveCarrierOwner) {
    const connection = endpoint.connect();
    const client = createClient(CallService, connection.transport);
    this.#frames = new FrameStream<DriveRequest, DriveResponse>({
      connection,
      call: (frames) => client.drive(frames),
      next: () => this.#next(),
      onFrame: (frame) => {
        if (frame.welcome !== undefined && !this.#welcomed) {
          this.#welcomed = true;
          const { heartbeatInterval } = frame.welcome;
          if (heartbeatInterval !== undefined) this.intervalMs = durationMs(heartbeatInterval);
          this.#frames.beat(this.intervalMs);
          owner.onWelcome(this);
        }
        owner.onFrame(this, frame);
        this.#frames.wake();
      },
      onBeat: (heard) => {
        this.#beat(heard);
      },
      onEnd: (cause) => {
        owner.onEnd(this, cause);
      },
    });
  }

  /** Sends an item, once the stream is welcomed. */
  send(item: DriveItem): void {
    this.#queue.push(item);
    this.#frames.wake();
  }

  /** Whether the stream keeps the process alive. */
  keepAlive(on: boolean): void {
    this.#frames.keepAlive(on);
  }

  /** Closes the sending half; the server then ends the stream. */
  end(): void {
    this.#frames.end();
  }

  /** Ends the stream and its connection at once. */
  drop(cause: Error): void {
    this.#frames.drop(cause);
  }

  /** Sending alone brings no answer, and hearing alone does not show the server that this side lives. */
  #beat(heard: boolean): void {
    if (heard && this.#sent) {
      this.#sent = false;
      return;
    }
    this.#pingDue = true;
    this.#frames.wake();
  }

  #next(): DriveRequest | undefined {
    if (!this.#started) {
      // Servers send no headers before they have read something.
      this.#started = true;
      return create(DriveRequestSchema);
    }
    if (!this.#welcomed || (this.#queue.length === 0 && !this.#pingDue)) return undefined;
    const frame = create(DriveRequestSchema);
    let bytes = 0;
    let taken = 0;
    for (const item of this.#queue) {
      const size = item.kind === "open" ? item.bytes : CALL_ID_BYTES;
      if (taken > 0 && bytes + size > LIMITS.frameTargetBytes) break;
      bytes += size;
      taken++;
      if (item.kind === "watch") {
        frame.watch.push(item.callId);
      } else if (!item.withdrawn) {
        item.sent = true;
        frame.opens.push(item.open);
      }
    }
    this.#queue = taken === this.#queue.length ? [] : this.#queue.slice(taken);
    if (this.#pingDue) {
      this.#pingDue = false;
      this.#pings = (this.#pings + 1) % PING_LIMIT;
      frame.ping = this.#pings;
    }
    this.#sent = true;
    return frame;
  }
}
