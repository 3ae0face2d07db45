import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import {
  HeartbeatSchema,
  WorkRequestSchema,
  WorkResponseSchema,
  type Ack,
  type ClaimCallsRequest,
  type Welcome,
  type WorkerService,
  type WorkRequest,
  type WorkResponse,
} from "@trunkline/proto/worker";
import type { WorkPeer } from "./peer.js";
import { Queue } from "./queue.js";

type Twins = Omit<ServiceImpl<typeof WorkerService>, "work">;

/** A request that waits for something to be answered. */
interface Waiting {
  /** Looks whether that is there. */
  look(): void;
  fail(error: ConnectError): void;
}

/**
 * A worker that works by single requests, as the test plays its server. What the requests say is put into the frames
 * that a stream would have carried; what the test sends goes with the answers to the next requests that can bring it.
 */
export class PollPeer implements WorkPeer {
  readonly header: Headers;
  readonly over: Promise<void>;
  readonly #up = new Queue<WorkRequest>();
  readonly #waiting = new Set<Waiting>();
  readonly #accepted = new Set<string>();
  readonly #acks = new Map<string, Ack>();
  /** What was sent and is not told yet; acks apart. */
  #down = create(WorkResponseSchema);
  #welcome: Welcome | undefined;
  #credit = 0;
  #silent = false;
  #failure: ConnectError | undefined;
  #resolveOver = (): void => undefined;

  constructor(header: Headers) {
    this.header = header;
    this.over = new Promise((resolve) => {
      this.#resolveOver = resolve;
    });
  }

  /** Whether its requests were cut or refused: what comes now is another carrier's. */
  get isOver(): boolean {
    return this.#failure !== undefined;
  }

  next(): Promise<WorkRequest> {
    return this.#up.take();
  }

  async until(fits: (frame: WorkRequest) => boolean): Promise<WorkRequest> {
    for (;;) {
      const frame = await this.next();
      if (fits(frame)) return frame;
    }
  }

  send({
    welcome,
    claims = [],
    confirmed = [],
    acks = [],
    revoked = [],
    heartbeatAck,
  }: Partial<WorkResponse>): void {
    this.#welcome ??= welcome;
    this.#down.claims.push(...claims);
    this.#down.confirmed.push(...confirmed);
    this.#down.revoked.push(...revoked);
    if (heartbeatAck !== undefined) this.#down.heartbeatAck = heartbeatAck;
    for (const ack of acks) this.#acks.set(ack.claimId, ack);
    this.#look();
  }

  fail(error: ConnectError): void {
    this.#failure ??= error;
    for (const waiting of this.#waiting) waiting.fail(this.#failure);
    this.#up.close(error);
    this.#resolveOver();
  }

  end(): void {
    // Each request has an end of its own.
  }

  fallSilent(): void {
    this.#silent = true;
  }

  /** Who works by requests leaves without a word. */
  farewell(): Promise<void> {
    return Promise.resolve();
  }

  /** The requests, as a server answers them. */
  readonly twins: Twins = {
    claimCalls: (request, context) => this.#claimCalls(request, context),

    heartbeat: async ({ claims, progress }, context) => {
      this.#say(claims, { heartbeat: beatOf(claims, progress) });
      await this.#when(context, () => !this.#silent);
      const { confirmed, revoked, heartbeatAck } = this.#down;
      this.#down = { ...create(WorkResponseSchema), claims: this.#down.claims };
      return { confirmed, lost: [...revoked.map(({ claimId }) => claimId), ...(heartbeatAck?.lost ?? [])] };
    },

    answerCalls: async ({ claims, answers }, context) => {
      this.#say(claims, { answers });
      return { acks: await this.#acksOf(answers, context) };
    },

    deferCall: async ({ claims, deferral }, context) => {
      const deferrals = deferral === undefined ? [] : [deferral];
      this.#say(claims, { deferrals });
      const [ack] = await this.#acksOf(deferrals, context);
      return ack === undefined ? {} : { ack };
    },

    releaseCalls: async ({ claims, releases }, context) => {
      this.#say(claims, { releases: releases.map(({ claimId }) => claimId) });
      return { acks: await this.#acksOf(releases, context) };
    },
  };

  async #claimCalls({ hello, wait }: ClaimCallsRequest, context: HandlerContext) {
    const { claims = [], slots = 0 } = hello ?? {};
    const first = this.#welcome === undefined;
    const drains = !first && slots === 0;
    if (first) {
      for (const { claimId } of claims) this.#accepted.add(claimId);
      this.#up.put(create(WorkRequestSchema, hello && { hello }));
    } else {
      const grant = Math.max(0, slots - this.#credit);
      this.#say(claims, { heartbeat: beatOf(claims), grant, ...(drains && { drain: {} }) });
    }
    this.#credit = slots;
    let late = false;
    const timer = setTimeout(
      () => {
        late = true;
        this.#look();
      },
      wait === undefined ? 0 : durationMs(wait),
    );
    const hasEnough = (): boolean => drains || late || this.#down.claims.length > 0;
    await this.#when(context, () => !this.#silent && this.#welcome !== undefined && hasEnough()).finally(() =>
      clearTimeout(timer),
    );
    const given = this.#down.claims.splice(0, slots);
    this.#credit -= given.length;
    return { ...(this.#welcome && { welcome: this.#welcome }), claims: given };
  }

  /** What a request says; naming a claim accepts it. */
  #say(
    named: readonly { readonly claimId: string }[],
    frame: MessageInitShape<typeof WorkRequestSchema>,
  ): void {
    const accepted = named.map(({ claimId }) => claimId).filter((claimId) => !this.#accepted.has(claimId));
    for (const claimId of accepted) this.#accepted.add(claimId);
    this.#up.put(create(WorkRequestSchema, { ...frame, accepted }));
  }

  async #acksOf(items: readonly { readonly claimId: string }[], context: HandlerContext): Promise<Ack[]> {
    await this.#when(context, () => items.every(({ claimId }) => this.#acks.has(claimId)));
    return items.flatMap(({ claimId }) => {
      const ack = this.#acks.get(claimId);
      this.#acks.delete(claimId);
      return ack ?? [];
    });
  }

  #look(): void {
    for (const waiting of [...this.#waiting]) waiting.look();
  }

  /** Waits until something is to be answered; rejects when this peer is over, or the client has gone. */
  #when({ signal }: HandlerContext, isThere: () => boolean): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      const forget = (): void => {
        this.#waiting.delete(waiting);
        signal.removeEventListener("abort", gone);
      };
      const waiting: Waiting = {
        look: () => {
          if (!isThere()) return;
          forget();
          resolve();
        },
        fail: (error) => {
          forget();
          reject(error);
        },
      };
      const gone = (): void => {
        waiting.fail(new ConnectError("the client went away", Code.Canceled));
        if (this.#silent) this.#resolveOver();
      };
      this.#waiting.add(waiting);
      signal.addEventListener("abort", gone);
      waiting.look();
    });
  }
}

function beatOf(
  claims: readonly { readonly claimId: string }[],
  progress: readonly { readonly claimId: string; readonly progressJson: string }[] = [],
) {
  return create(HeartbeatSchema, { claims: claims.map(({ claimId }) => claimId), progress: [...progress] });
}
