import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import type { Reason } from "@trunkline/proto/problem";
import {
  ClaimVerdict_Standing as Standing,
  WorkRequestSchema,
  WorkResponseSchema,
  type Answer,
  type Claim,
  type Deferral,
  type Hello,
  type WorkRequest,
  type WorkResponse,
} from "@trunkline/proto/worker";
import type { Link } from "./door.js";

/** How often heartbeats are due. */
export const INTERVAL_MS = 500;

const MAX_RESULT_BYTES = 1024 * 1024;

/** The largest frame. */
export const MAX_FRAME_BYTES = 4 * 1024 * 1024;

/** A frame as the server sends it. */
export type ResponseInit = MessageInitShape<typeof WorkResponseSchema>;

/** A heartbeat that came. */
export interface Beat {
  readonly atMs: number;
  readonly claims: readonly string[];
}

/** What a {@link PeerStream} tells; it speaks of each frame before anybody waits for the next. */
export interface PeerStreamEvents {
  readonly nowMs: number;
  onRequest(stream: PeerStream, frame: WorkRequest): void;
  onResponse(stream: PeerStream, frame: WorkResponse): void;
  /** The worker has closed its side, or the stream is over; with the error of a frame that could not be read. */
  onChange(stream: PeerStream, unreadable?: ConnectError): void;
}

/** One `Work` stream of a worker, whose server the kit plays: it remembers all that came. */
export class PeerStream {
  /** From 1, in the order in which they were opened. */
  readonly number: number;
  readonly link: Link;
  readonly authorization: string | null;
  /** When it was welcomed; undefined before. */
  welcomedAtMs: number | undefined;
  /** The worker has closed its side. */
  halfClosed = false;
  over = false;
  /** Ids of claims to call lost in the next answer to a heartbeat. */
  lost: string[] = [];
  readonly requests: WorkRequest[] = [];
  readonly beats: Beat[] = [];
  readonly #events: PeerStreamEvents;
  readonly #down: (WorkResponse | ConnectError | "end")[] = [];
  #wake: () => void = () => undefined;

  constructor(number: number, link: Link, context: HandlerContext, events: PeerStreamEvents) {
    this.number = number;
    this.link = link;
    this.authorization = context.requestHeader.get("authorization");
    this.#events = events;
    context.signal.addEventListener("abort", () => this.#finish());
  }

  // What came.

  get hello(): Hello | undefined {
    return this.requests[0]?.hello;
  }

  /** Ids of the claims that the hello named. */
  get named(): string[] {
    return (this.hello?.claims ?? []).map(({ claimId }) => claimId);
  }

  /** The sum of all grants, without the hello's slots. */
  get granted(): number {
    return this.requests.reduce((sum, { grant }) => sum + grant, 0);
  }

  get drains(): boolean {
    return this.requests.some(({ drain }) => drain !== undefined);
  }

  /** Whether a claim was accepted, in one of the three ways to do so. */
  hasAccepted({ claimId }: Claim): boolean {
    return (
      this.named.includes(claimId) ||
      this.requests.some(
        ({ accepted, heartbeat }) =>
          accepted.includes(claimId) || (heartbeat?.claims.includes(claimId) ?? false),
      )
    );
  }

  answersTo({ claimId }: Claim): Answer[] {
    return this.requests.flatMap(({ answers }) => answers.filter((answer) => answer.claimId === claimId));
  }

  deferralsOf({ claimId }: Claim): Deferral[] {
    return this.requests.flatMap(({ deferrals }) => deferrals.filter((each) => each.claimId === claimId));
  }

  hasReleased({ claimId }: Claim): boolean {
    return this.requests.some(({ releases }) => releases.includes(claimId));
  }

  /** The size of the largest frame, in bytes. */
  get largestBytes(): number {
    return Math.max(
      0,
      ...this.requests.map(
        (frame) => toBinary(WorkRequestSchema, frame, { writeUnknownFields: true }).length,
      ),
    );
  }

  // What the kit says.

  send(frame: ResponseInit): void {
    const made = create(WorkResponseSchema, frame);
    this.#events.onResponse(this, made);
    this.#put(made);
  }

  /**
   * Welcomes the worker, with a verdict on each claim that it named: KEPT unless said otherwise.
   *
   * @param change does something to the frame before it is sent
   */
  welcome(
    verdictOf: (claimId: string) => Standing = () => Standing.KEPT,
    change: (frame: WorkResponse) => void = () => undefined,
  ): void {
    this.welcomedAtMs = this.#events.nowMs;
    const frame = create(WorkResponseSchema, {
      welcome: {
        node: "conformance",
        heartbeatInterval: durationFromMs(INTERVAL_MS),
        maxResultBytes: MAX_RESULT_BYTES,
        maxFrameBytes: MAX_FRAME_BYTES,
        verdicts: this.named.map((claimId) => ({ claimId, standing: verdictOf(claimId) })),
      },
    });
    change(frame);
    this.send(frame);
  }

  /** Sends claims in one frame. */
  give(...claims: readonly Claim[]): void {
    this.send({ claims: [...claims] });
  }

  /** Acknowledges what was said about a claim, or refuses it for good. */
  ack({ claimId }: Claim, refusal?: Reason): void {
    const problem =
      refusal === undefined ? {} : { problem: { code: 9, reason: refusal, message: "refused by the kit" } };
    this.send({ acks: [{ claimId, ...problem }] });
  }

  /** Ends the stream in order. */
  end(): void {
    this.#put("end");
  }

  // The stream itself.

  /** Reads what comes until it ends, and gives what is to be sent. */
  run(requests: AsyncIterable<WorkRequest>): AsyncIterable<WorkResponse> {
    void this.#read(requests);
    return this.#responses();
  }

  async *#responses(): AsyncGenerator<WorkResponse> {
    try {
      for (;;) {
        const next = this.#down.shift();
        if (next === "end" || (next === undefined && this.over)) return;
        if (next === undefined) await new Promise<void>((resolve) => (this.#wake = resolve));
        else if (next instanceof Error) throw next;
        else yield next;
      }
    } finally {
      this.#finish();
    }
  }

  async #read(requests: AsyncIterable<WorkRequest>): Promise<void> {
    try {
      for await (const frame of requests) {
        const { heartbeat } = frame;
        this.requests.push(frame);
        if (heartbeat !== undefined) this.beats.push({ atMs: this.#events.nowMs, claims: heartbeat.claims });
        this.#events.onRequest(this, frame);
      }
      if (this.over) return;
      this.halfClosed = true;
      this.#events.onChange(this);
    } catch (error) {
      // What is wrong with a frame is said by connect; all else is a stream that was cut, and has its own event.
      const fault = unreadable(error);
      if (fault !== undefined) this.#events.onChange(this, fault);
    }
  }

  #put(item: WorkResponse | ConnectError | "end"): void {
    this.#down.push(item);
    this.#wake();
  }

  #finish(): void {
    if (this.over) return;
    this.over = true;
    this.#wake();
    this.#events.onChange(this);
  }
}

const BAD_FRAME: readonly Code[] = [Code.InvalidArgument, Code.ResourceExhausted, Code.Internal];

function unreadable(error: unknown): ConnectError | undefined {
  return error instanceof ConnectError && BAD_FRAME.includes(error.code) ? error : undefined;
}
