import { create } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { createClient, type CallOptions, type Client } from "@connectrpc/connect";
import {
  HelloSchema,
  WorkerService,
  WorkResponseSchema,
  type Ack,
  type ClaimCallsResponse,
  type WorkResponse,
} from "@trunkline/proto/worker";
import { LIMITS } from "./limits.js";
import type { OutboxItem } from "./outbox.js";
import type { Connection, Endpoint } from "./transport.js";
import type { WorkCarrier, WorkCarrierOwner } from "./work-carrier.js";

/** The interval when a server names none. */
const DEFAULT_INTERVAL_MS = 5_000;
/** How long an answer may take beside what is waited for on purpose. */
const ANSWER_MS = 10_000;
/** Heartbeats that are not answered for so many intervals mean that the server is away. */
const SILENT_INTERVALS = 3;
const LEAST_BEAT_MS = 2_000;
/** A poll costs a hello: slots that become free one soon after the other go into one. */
const GATHER_MS = 5;
/** Requests with items of the outbox that are under way at once; while they are, the next ones gather. */
const SENDING = 4;
/** Items of one request. */
const BATCH_ITEMS = 1_000;

/**
 * A worker's session carried by single requests: one that waits for claims, heartbeats while any is held, and the
 * outbox. Where one of them gets no answer it ends, as a stream does that is cut; the next one says hello again.
 */
export class WorkPoll implements WorkCarrier {
  readonly #owner: WorkCarrierOwner;
  readonly #connection: Connection;
  readonly #client: Client<typeof WorkerService>;
  readonly #waitMs: number;
  readonly #requests = new Set<AbortController>();
  readonly #named = new Set<string>();
  /** Who sends: the session and its process, as every request says. */
  #who = { sessionId: "", nonce: "" };
  intervalMs = DEFAULT_INTERVAL_MS;
  #queue: OutboxItem[] = [];
  #sending = 0;
  #sendDue = false;
  #polling: AbortController | undefined;
  #beating = false;
  #beatDue = false;
  #timer: NodeJS.Timeout | undefined;
  #gathering: NodeJS.Timeout | undefined;
  #draining = false;
  #over = false;

  /** @param waitMs how long one request waits for claims */
  constructor(endpoint: Endpoint, owner: WorkCarrierOwner, waitMs: number) {
    this.#owner = owner;
    this.#waitMs = waitMs;
    this.#connection = endpoint.plain();
    this.#client = createClient(WorkerService, this.#connection.transport);
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
    this.#queue.push(item);
    if (this.#sendDue) return;
    this.#sendDue = true;
    setImmediate(() => {
      this.#sendDue = false;
      this.#sendReady();
    });
  }

  grant(): void {
    this.#pollSoon();
  }

  heartbeat(): void {
    if (this.#beatDue) return;
    this.#beatDue = true;
    setImmediate(() => this.flush());
  }

  /** The request that waits is given up; another, without slots, has the server take back what came for it. */
  drain(): void {
    if (this.#draining || this.#over) return;
    this.#draining = true;
    this.#polling?.abort();
    this.#polling = undefined;
    void this.#askClaims(0).then((response) => {
      if (response !== undefined) this.#tell({ drained: { $typeName: "trunkline.v1.Drained" } });
    });
  }

  flush(): void {
    if (!this.#beatDue || this.#beating || this.#over) return;
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

  #pollSoon(): void {
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      this.#pollOn();
    }, GATHER_MS);
  }

  /** Waits for claims again, if there is room for any. */
  #pollOn(): void {
    if (this.#timer === undefined || this.#draining || this.#owner.freeSlots === 0) return;
    void this.#poll(this.#waitMs);
  }

  async #poll(waitMs: number): Promise<void> {
    if (this.#polling !== undefined || this.#over) return;
    const polling = (this.#polling = new AbortController());
    const response = await this.#askClaims(waitMs, polling);
    if (this.#polling === polling) this.#polling = undefined;
    if (response === undefined) return;
    if (this.#timer === undefined) this.#welcome(response);
    if (response.claims.length > 0) this.#tell({ claims: response.claims });
    this.#pollSoon();
  }

  async #askClaims(waitMs: number, own?: AbortController): Promise<ClaimCallsResponse | undefined> {
    const hello = create(HelloSchema, this.#owner.buildHello());
    const { sessionId, nonce, claims } = hello;
    this.#who = { sessionId, nonce };
    for (const { claimId } of claims) this.#named.add(claimId);
    const request = { hello, wait: durationFromMs(waitMs) };
    return this.#ask((options) => this.#client.claimCalls(request, options), waitMs + ANSWER_MS, own);
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
    const patienceMs = Math.min(Math.max(SILENT_INTERVALS * this.intervalMs, LEAST_BEAT_MS), ANSWER_MS);
    const response = await this.#ask((options) => this.#client.heartbeat(request, options), patienceMs);
    this.#beating = false;
    if (response === undefined) return;
    const { confirmed, lost } = response;
    this.#tell({ confirmed, heartbeatAck: { $typeName: "trunkline.v1.HeartbeatAck", lost } });
    this.flush();
  }

  #sendReady(): void {
    while (this.#queue.length > 0 && this.#sending < SENDING && !this.#over) {
      this.#sending++;
      void this.#sendBatch(this.#takeBatch()).then((acks) => {
        this.#sending--;
        if (acks === undefined) return;
        this.#tell({ acks });
        this.#sendReady();
      });
    }
  }

  /** The oldest item, and what else goes with it: others of its kind, up to a frame's size. */
  #takeBatch(): OutboxItem[] {
    const batch: OutboxItem[] = [];
    const rest: OutboxItem[] = [];
    let bytes = 0;
    for (const item of this.#queue) {
      const isFirst = batch.length === 0;
      const fits = bytes + item.bytes <= LIMITS.frameTargetBytes && batch.length < BATCH_ITEMS;
      const goes = isFirst || (fits && item.kind === batch[0]?.kind && item.kind !== "deferral");
      (goes ? batch : rest).push(item);
      if (goes) bytes += item.bytes;
    }
    this.#queue = rest;
    return batch;
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
    timeoutMs = ANSWER_MS,
    own = new AbortController(),
  ): Promise<T | undefined> {
    if (this.#hasEnded()) return undefined;
    this.#requests.add(own);
    try {
      const response = await request({ signal: own.signal, timeoutMs });
      return this.#hasEnded() ? undefined : response;
    } catch (cause) {
      if (!own.signal.aborted) this.#finish(cause);
      return undefined;
    } finally {
      this.#requests.delete(own);
    }
  }

  /** Looked at anew after every wait. */
  #hasEnded(): boolean {
    return this.#over;
  }

  #tell(said: Partial<WorkResponse>): void {
    this.#owner.onFrame(this, { ...create(WorkResponseSchema), ...said });
  }

  #finish(cause: unknown): void {
    if (this.#over) return;
    this.#over = true;
    clearInterval(this.#timer);
    clearTimeout(this.#gathering);
    for (const request of this.#requests) request.abort();
    this.#connection.abort();
    this.#owner.onEnd(this, cause);
  }
}
