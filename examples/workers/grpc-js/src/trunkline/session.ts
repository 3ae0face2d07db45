import { randomBytes, randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Reason } from "@trunkline/proto/problem";
import {
  ClaimVerdict_Standing as Standing,
  DeferralSchema,
  HelloSchema,
  RevokeReason,
  type Ack,
  type Answer,
  type Claim,
  type Hello,
  type Welcome,
  type WorkResponse,
} from "@trunkline/proto/worker";
import { answerOf, ClaimLost, type Call } from "./call.js";
import { Outbox, type Item } from "./outbox.js";
import type { Stream } from "./stream.js";
import type { WorkerOptions } from "./worker.js";

/** What the id of a claim takes in a frame, and an item beside its payload. */
export const CLAIM_ID_BYTES = 40;
const ITEM_BYTES = 200;

/** A claim from its receipt to the ack of what became of it. */
interface Held {
  readonly claim: Claim;
  readonly abort: AbortController;
  /** The server was told of its acceptance. */
  told: boolean;
  /** The acceptance of a `confirm` claim is stored. */
  confirmed: boolean;
  started: boolean;
  /** Its handler has ended, or will never start. */
  over: boolean;
  /** Settles the deferral that is under way. */
  deferred?: { resolve(): void; reject(reason: unknown): void };
}

/** This process as the server knows it, across streams: the claims it holds, its slots, and what it has to say. */
export class Session {
  readonly options: WorkerOptions;
  readonly #id = randomUUID();
  readonly #nonce = randomBytes(16).toString("base64url");
  readonly #held = new Map<string, Held>();
  readonly #outbox = new Outbox();
  readonly #streams = new Set<Stream>();
  readonly #finished = new AbortController();
  #free: number;
  #hellos = 0;
  #draining = false;
  #maxResultBytes = 1_048_576;
  /** The one opened last, unless it has ended or said goaway. */
  #newest: Stream | undefined;
  /** The last that was welcomed, unless it has ended. */
  #active: Stream | undefined;

  constructor(options: WorkerOptions) {
    this.options = options;
    this.#free = options.slots;
  }

  /** Aborted when it has drained. */
  get finished(): AbortSignal {
    return this.#finished.signal;
  }

  /** Gives up, without a word to the server. */
  end(reason: unknown): void {
    for (const stream of this.#streams) stream.drop(reason);
    for (const { abort, deferred } of this.#held.values()) {
      deferred?.reject(reason);
      abort.abort(reason);
    }
  }

  opened(stream: Stream): void {
    this.#streams.add(stream);
    this.#newest = stream;
  }

  ended(stream: Stream): void {
    this.#streams.delete(stream);
    if (this.#active === stream) this.#active = undefined;
    if (this.#newest === stream) this.#newest = undefined;
    this.#changed();
  }

  isActive(stream: Stream): boolean {
    return this.#active === stream;
  }

  /** Says who is here and what it holds, at the moment when it is sent (1). */
  hello(stream: Stream): Hello {
    const claims = [...this.#held.values()].map(({ claim }) => claim);
    for (const { claimId } of claims) stream.named.add(claimId);
    return create(HelloSchema, {
      sessionId: this.#id,
      nonce: this.#nonce,
      worker: this.options.name,
      sdk: "trunkline-example-grpc-js",
      tools: Object.keys(this.options.tools),
      slots: this.#draining ? 0 : this.#free,
      claims: claims.map(({ callId, claimId }) => ({ callId, claimId })),
      number: BigInt(++this.#hellos),
    });
  }

  /** The ids of all claims, for a heartbeat (4). */
  claimIds(): string[] {
    return [...this.#held.keys()];
  }

  /** Does what a frame says, in the order of its fields. Fields and enum values of a newer server fall through. */
  apply(stream: Stream, frame: WorkResponse): void {
    if (frame.welcome !== undefined && !stream.welcomed) this.#welcome(stream, frame.welcome);
    for (const claim of frame.claims) this.#receive(stream, claim);
    for (const claimId of frame.confirmed) this.#confirm(claimId);
    for (const ack of frame.acks) this.#acknowledge(ack);
    for (const { claimId, reason } of frame.revoked)
      this.#lose(claimId, RevokeReason[reason] ?? `reason ${reason}`);
    for (const claimId of frame.heartbeatAck?.lost ?? [])
      this.#lose(claimId, "the server does not hold it any more");
    if (frame.goaway !== undefined && this.#newest === stream) this.#newest = undefined;
    this.#changed();
  }

  /** Starts the handlers whose claims' acceptance is on its way. */
  accepted(claims: readonly Claim[]): void {
    for (const { claimId } of claims) {
      const held = this.#held.get(claimId);
      if (held === undefined) continue;
      held.told = true;
      this.#start(held);
    }
  }

  /** Takes no further claim, and hands back those whose handlers have not started (7). */
  drain(): void {
    this.#draining = true;
    for (const held of this.#held.values()) {
      if (!held.started && !held.over) this.#release(held);
    }
    if (this.#active !== undefined) this.#active.drainDue = true;
    this.#changed();
  }

  /** Looks whether it may end, and lets the streams look for something to send. */
  #changed(): void {
    if (this.#draining && this.#held.size === 0 && this.#free === this.options.slots) {
      if (this.#active === undefined && this.#newest === undefined) {
        this.#finished.abort(); // nothing is left to say, and nobody listens
      } else if (this.#active?.drained === true) {
        this.#active.closing = true;
      }
    }
    this.#active?.poke();
    this.#newest?.poke();
  }

  /** Makes it the stream to talk on. What the one before has not sent is said here. */
  #welcome(stream: Stream, welcome: Welcome): void {
    this.#active?.retire();
    this.#active = stream;
    stream.welcomed = true;
    this.#maxResultBytes = welcome.maxResultBytes || this.#maxResultBytes;
    for (const { claimId, standing } of welcome.verdicts) {
      if (standing === Standing.CONFIRMED) this.#confirm(claimId);
      else if (
        standing === Standing.DEFERRED ||
        standing === Standing.ANSWERED ||
        standing === Standing.LOST
      ) {
        this.#lose(claimId, Standing[standing]);
      } // else it is kept; where that is wrong, the next heartbeat_ack says so
    }
    stream.queue = this.#outbox.items();
    for (const [claimId, { claim }] of this.#held) {
      if (stream.named.has(claimId))
        this.accepted([claim]); // to name it was to accept it
      else if (!this.#outbox.has(claimId)) this.#accept(claim); // it came by the stream before, after this one's hello
    }
    stream.drainDue = this.#draining;
  }

  /** Takes a claim, and one slot for it (2). */
  #receive(stream: Stream, claim: Claim): void {
    if (this.#held.has(claim.claimId)) {
      // Sent again, it took credit but takes no slot.
      if (stream === this.#newest && !this.#draining) stream.grant++;
      return;
    }
    const abort = new AbortController();
    const held: Held = { claim, abort, told: false, confirmed: false, started: false, over: false };
    this.#held.set(claim.claimId, held);
    this.#free--;
    if (this.#draining || !Object.hasOwn(this.options.tools, claim.tool)) this.#release(held);
    else this.#accept(claim);
  }

  #accept(claim: Claim): void {
    this.#active?.queue.push({ kind: "accept", claimId: claim.claimId, claim, size: CLAIM_ID_BYTES });
  }

  #confirm(claimId: string): void {
    const held = this.#held.get(claimId);
    if (held === undefined) return;
    held.told = held.confirmed = true;
    this.#start(held);
  }

  /** Starts the handler of a claim, once, as soon as it may. */
  #start(held: Held): void {
    if (!held.told || (held.claim.confirm && !held.confirmed) || held.started || held.over) return;
    held.started = true;
    void this.#run(held);
  }

  async #run(held: Held): Promise<void> {
    const { claim, abort } = held;
    const call: Call = {
      claim,
      callId: claim.callId,
      attempt: claim.attempt,
      inputJson: claim.inputJson,
      signal: abort.signal,
      newToken: () => `${claim.callId}.${claim.attempt}.${randomBytes(32).toString("base64url")}`,
      defer: (token, timeoutMs) => this.#defer(held, token, timeoutMs),
    };
    const answer = await answerOf(this.options.tools[claim.tool]!, call, this.#maxResultBytes);
    // Not when the claim was lost, or deferred.
    if (this.#held.get(claim.claimId) === held) {
      this.#say({ kind: "answer", claimId: claim.claimId, answer, size: answerBytes(answer) + ITEM_BYTES });
    }
    this.#freeSlot(held);
    this.#changed();
  }

  #defer(held: Held, token: string, timeoutMs?: number): Promise<void> {
    const { claimId, callId } = held.claim;
    return new Promise((resolve, reject) => {
      if (this.#held.get(claimId) !== held || held.over || this.#outbox.has(claimId)) {
        throw new ClaimLost("there is nothing left to defer");
      }
      held.deferred = { resolve, reject };
      const deferral = create(DeferralSchema, {
        claimId,
        callId,
        secret: token.slice(token.lastIndexOf(".") + 1),
      });
      if (timeoutMs !== undefined) deferral.timeout = durationFromMs(timeoutMs);
      this.#say({ kind: "deferral", claimId, deferral, size: ITEM_BYTES });
      this.#changed();
    });
  }

  /** Keeps an item until its ack, and sends it where there is a stream; if not, the next welcome does (5). */
  #say(item: Item): void {
    if (this.#outbox.put(item)) this.#active?.queue.push(item);
  }

  /** Hands back a claim whose handler has not started. */
  #release(held: Held): void {
    this.#say({ kind: "release", claimId: held.claim.claimId, size: CLAIM_ID_BYTES });
    this.#freeSlot(held);
  }

  /** Marks that no handler runs for a claim any more, and passes its slot on (3). */
  #freeSlot(held: Held): void {
    held.over = true;
    this.#free++;
    // Before the hello it is counted there.
    if (this.#newest?.greeted === true && !this.#draining) this.#newest.grant++;
  }

  /** Drops a claim that has ended without our doing. One in the outbox waits for its ack, which alone counts (6). */
  #lose(claimId: string, why: string): void {
    const held = this.#held.get(claimId);
    if (held === undefined || this.#outbox.has(claimId)) return;
    this.#held.delete(claimId);
    this.options.log(`the claim of ${held.claim.callId} was lost: ${why}`);
    if (held.started) held.abort.abort(new ClaimLost(why));
    else this.#freeSlot(held);
  }

  /** Is done with an item, and with its claim. Only a refused deferral leaves the claim with its handler. */
  #acknowledge({ claimId, problem }: Ack): void {
    const item = this.#outbox.take(claimId);
    const held = this.#held.get(claimId);
    if (item === undefined || held === undefined) return;
    const refused =
      problem && new Error(`${Reason[problem.reason] ?? `reason ${problem.reason}`}: ${problem.message}`);
    if (refused) this.options.log(`${item.kind} of ${held.claim.callId} was refused: ${refused.message}`);
    if (item.kind !== "deferral" || !refused || held.over) this.#held.delete(claimId);
    if (refused) held.deferred?.reject(refused);
    else held.deferred?.resolve();
  }
}

/** Counted without encoding it. */
function answerBytes({ outcome }: Answer): number {
  if (outcome.case === "resultJson") return Buffer.byteLength(outcome.value);
  const { message = "", dataJson = "" } = outcome.value ?? {};
  return Buffer.byteLength(message) + Buffer.byteLength(dataJson);
}
