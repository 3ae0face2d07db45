import { create } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import type { CallOptions, Client } from "@connectrpc/connect";
import {
  HelloSchema,
  WorkerService,
  WorkResponseSchema,
  type Ack,
  type ClaimCallsResponse,
  type WorkResponse,
} from "@trunkline/proto/worker";
import { BatchSender } from "./batch-sender.js";
import { LIMITS } from "./limits.js";
import type { OutboxItem } from "./outbox.js";
import { ANSWER_MS, PollRequests, type PollRequestOptions } from "./poll-requests.js";
import type { Endpoint } from "./transport.js";
import type { WorkCarrier, WorkCarrierOwner } from "./work-carrier.js";

/** The interval when a server names none. */
const DEFAULT_INTERVAL_MS = 5_000;
/** Heartbeats that are not answered for so many intervals mean that the server is away. */
const SILENT_INTERVALS = 3;
const LEAST_BEAT_MS = 2_000;
/** A poll costs a hello: slots that become free one soon after the other go into one. */
const GATHER_MS = 5;

/**
 * A worker's session carried by single requests: one that waits for claims, heartbeats while any is held, and the
 * outbox. Where one of them gets no answer it ends, as a stream does that is cut; the next one says hello again.
 */
export class WorkPoll implements WorkCarrier {
  readonly #owner: WorkCarrierOwner;
  readonly #requests: PollRequests;
  readonly #client: Client<typeof WorkerService>;
  readonly #outbox: BatchSender<OutboxItem>;
  readonly #waitMs: number;
  readonly #named = new Set<string>();
  /** Who sends: the session and its process, as every request says. */
  #who = { sessionId: "", nonce: "" };
  intervalMs = DEFAULT_INTERVAL_MS;
  #polling: AbortController | undefined;
  #beating = false;
  #beatDue = false;
  #timer: NodeJS.Timeout | undefined;
  #gathering: NodeJS.Timeout | undefined;
  #draining = false;
  #resting = false;

  /** @param waitMs how long one request waits for claims */
  constructor(endpoint: Endpoint, owner: WorkCarrierOwner, waitMs: number) {
    this.#owner = owner;
    this.#waitMs = waitMs;
    this.#requests = new PollRequests(endpoint.plain());
    this.#client = this.#requests.client(WorkerService);
    this.#outbox = new BatchSender<OutboxItem>({
      goTogether: (first, { kind }) => kind === first.kind && kind !== "deferral",
      send: async (batch) => {
        const acks = await this.#sendBatch(batch);
        if (acks !== undefined) this.#tell({ acks });
      },
    });
    // In the next turn, when whoever made it knows it. The first request waits for nothing: its welcome is wanted.
    setImmediate(() => void this.#poll(0));
  }

  hasNamed(claimId: string): boolean {
    return this.#named.has(claimId);
  }

  /** A heartbeat that names the claim says so. */
  accept(): void {
    this.heartbeat();
  }

  send(item: OutboxItem): void {
    this.#outbox.add(item);
  }

  grant(): void {
    this.#resting = false;
    this.#pollSoon();
  }

  heartbeat(): void {
    if (this.#beatDue) return;
    this.#beatDue = true;
    setImmediate(() => this.flush());
  }

  /** Every request for claims is a hello: the one that waits is given up for the next. */
  greetAgain(): boolean {
    // Until the first is answered, none is in the way of the next.
    if (this.#timer === undefined) return true;
    this.#polling?.abort();
    this.#polling = undefined;
    this.#pollSoon();
    return true;
  }

  /** The request that waits is given up; another, without slots, has the server take back what came for it. */
  drain(): void {
    if (this.#draining || this.#requests.over) return;
    this.#draining = true;
    this.#giveUpPoll();
    void this.#askClaims(0).then((response) => {
      if (response !== undefined) this.#tell({ drained: { $typeName: "trunkline.v1.Drained" } });
    });
  }

  rest(): void {
    this.#resting = true;
    this.#giveUpPoll();
  }

  flush(): void {
    if (!this.#beatDue || this.#beating || this.#requests.over) return;
    this.#beatDue = false;
    void this.#beat();
  }

  replaced(): void {
    this.#finish(undefined);
  }

  end(): void {
    this.#finish(undefined);
  }

  drop(cause: Error): void {
    this.#finish(cause);
  }

  #giveUpPoll(): void {
    this.#polling?.abort();
    this.#polling = undefined;
  }

  #pollSoon(): void {
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      this.#pollOn();
    }, GATHER_MS);
  }

  /** Waits for claims again, if there is room for any. */
  #pollOn(): void {
    if (this.#timer === undefined || this.#draining || this.#resting) return;
    if (this.#owner.freeSlots === 0) return;
    void this.#poll(this.#waitMs);
  }

  async #poll(waitMs: number): Promise<void> {
    if (this.#polling !== undefined || this.#requests.over) return;
    const polling = (this.#polling = new AbortController());
    const response = await this.#askClaims(waitMs, polling);
    if (this.#polling === polling) this.#polling = undefined;
    if (response === undefined) return;
    if (this.#timer === undefined) this.#welcome(response);
    if (response.claims.length > 0) this.#tell({ claims: response.claims });
    this.#pollSoon();
  }

  async #askClaims(waitMs: number, own?: AbortController): Promise<ClaimCallsResponse | undefined> {
    const hello = create(HelloSchema, this.#owner.buildHello(this));
    const { sessionId, nonce, claims } = hello;
    this.#who = { sessionId, nonce };
    for (const { claimId } of claims) this.#named.add(claimId);
    const request = { hello, wait: durationFromMs(waitMs) };
    return this.#ask((options) => this.#client.claimCalls(request, options), {
      timeoutMs: waitMs + ANSWER_MS,
      own,
    });
  }

  #welcome({ welcome }: ClaimCallsResponse): void {
    if (welcome?.heartbeatInterval !== undefined) this.intervalMs = durationMs(welcome.heartbeatInterval);
    const ms = Math.min(Math.max(this.intervalMs, 1), LIMITS.timerMs);
    this.#timer = setInterval(() => this.#tick(), ms);
    if (welcome !== undefined) this.#owner.onWelcome(this, welcome);
  }

  #tick(): void {
    if (!this.#owner.isActive(this)) return;
    if (this.#owner.named().length > 0) this.heartbeat();
    this.#pollOn();
  }

  async #beat(): Promise<void> {
    this.#beating = true;
    const { progress = [] } = this.#owner.buildHeartbeat();
    const request = { ...this.#who, claims: this.#owner.named(), progress };
    const timeoutMs = Math.min(Math.max(SILENT_INTERVALS * this.intervalMs, LEAST_BEAT_MS), ANSWER_MS);
    const response = await this.#ask((options) => this.#client.heartbeat(request, options), { timeoutMs });
    this.#beating = false;
    if (response === undefined) return;
    const { confirmed, lost } = response;
    this.#tell({ confirmed, heartbeatAck: { $typeName: "trunkline.v1.HeartbeatAck", lost } });
    this.flush();
  }

  async #sendBatch(batch: readonly OutboxItem[]): Promise<Ack[] | undefined> {
    const items = new Set(batch.map(({ claimId }) => claimId));
    const claims = this.#owner.named().filter(({ claimId }) => !items.has(claimId));
    const common = { ...this.#who, claims };
    const [first] = batch;
    switch (first?.kind) {
      case "deferral": {
        const request = { ...common, deferral: first.deferral };
        const response = await this.#ask((options) => this.#client.deferCall(request, options));
        return response && (response.ack === undefined ? [] : [response.ack]);
      }
      case "release": {
        const releases = batch.flatMap((item) =>
          item.kind === "release" ? { claimId: item.claimId, callId: item.callId } : [],
        );
        const request = { ...common, releases };
        return (await this.#ask((options) => this.#client.releaseCalls(request, options)))?.acks;
      }
      default: {
        const answers = batch.flatMap((item) => (item.kind === "answer" ? item.answer : []));
        const request = { ...common, answers };
        return (await this.#ask((options) => this.#client.answerCalls(request, options)))?.acks;
      }
    }
  }

  /** Sends a request; undefined when it came to nothing, or this carrier has ended meanwhile. */
  async #ask<T>(
    request: (options: CallOptions) => Promise<T>,
    options?: PollRequestOptions,
  ): Promise<T | undefined> {
    try {
      return await this.#requests.send(request, options);
    } catch (cause) {
      this.#finish(cause);
      return undefined;
    }
  }

  #tell(said: Partial<WorkResponse>): void {
    this.#owner.onFrame(this, { ...create(WorkResponseSchema), ...said });
  }

  #finish(cause: unknown): void {
    if (this.#requests.over) return;
    clearInterval(this.#timer);
    clearTimeout(this.#gathering);
    this.#outbox.end();
    this.#requests.end();
    this.#owner.onEnd(this, cause);
  }
}
