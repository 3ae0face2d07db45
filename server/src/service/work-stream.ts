import { create } from "@bufbuild/protobuf";
import {
  WorkResponseSchema,
  type Answer,
  type Deferral,
  type WorkRequest,
  type WorkResponse,
} from "@trunkline/proto/worker";
import type { Caller } from "../core/caller.js";
import type { RevokeCause } from "../core/event.js";
import { TrunklineError } from "../core/error.js";
import { LIMITS } from "../core/limits.js";
import { noDatabase } from "../exchange/availability.js";
import type { Delivery, WorkSink } from "../exchange/delivery.js";
import { overloaded } from "../exchange/overload.js";
import type { Session } from "../exchange/session.js";
import type { ServiceDeps } from "./deps.js";
import { asError, toTrunklineError } from "./error-map.js";
import { ID_BYTES, PROBLEM_BYTES, sizeOfClaim, sizeOfId, sizeOfIds } from "./frame-sizes.js";
import { FrameWriter } from "./frame-writer.js";
import { shuttingDown, type EndableStream } from "./open-streams.js";
import { goawayMessage, LEAVE_MS, StreamAge } from "./stream-age.js";
import { isUnreadable, onClientGone } from "./stream-end.js";
import { Watchdog } from "./watchdog.js";
import {
  acknowledged,
  applyAnswer,
  applyDeferral,
  applyRelease,
  isGoodProgress,
  type ItemDone,
} from "./work-items.js";
import { revokeReason, toClaim, toHelloRequest, toWelcome } from "./work-convert.js";

/** What these take of a frame, roughly, beside what varies in them. */
const WELCOME_BYTES = 128;
const GOAWAY_BYTES = 64;
/** What may wait for a worker to read before no more claims are made for it, whatever its credit. */
const UNREAD_BYTES = 4 * 1024 * 1024;
/** The part of its deadline for which a goaway waits for claims that are being written. */
const LAST_CLAIMS_PART = 0.75;

/** One worker's stream: frames up are applied in the order of their fields, frames down are gathered. */
export class WorkStream implements WorkSink, EndableStream {
  readonly polls = false;
  readonly #deps: ServiceDeps;
  readonly #caller: Caller;
  readonly #signal: AbortSignal;
  readonly #writer = new FrameWriter<WorkResponse>(
    () => create(WorkResponseSchema),
    () => this.#taken(),
  );
  readonly #watchdog: Watchdog;
  readonly #age: StreamAge;
  /** What is to follow the welcome, while that is still to come. */
  #early: (() => void)[] | null = [];
  /** Settles with the hello that is being taken, or was; null for one that failed. */
  #greeting: Promise<Session | null> | null = null;
  #session: Session | null = null;
  /** Bytes of replies since the worker has last read all that there was. */
  #unreadReplies = 0;
  /** Answers, deferrals and releases whose acks are still to come. */
  #unacked = 0;
  /** The last claim of a worker that drains has ended. */
  #drainedDue = false;
  #readEnded = false;
  /** The worker was told to open its next stream elsewhere. */
  #goingAway = false;
  /** It was told, after the last claim. */
  #saidGoaway = false;
  #shuttingDown = false;
  /** Nothing of this stream is applied any more, and its session is let go. */
  #left = false;

  constructor(deps: ServiceDeps, caller: Caller, signal: AbortSignal) {
    this.#deps = deps;
    this.#caller = caller;
    this.#signal = signal;
    this.#watchdog = new Watchdog(deps.exchange.heartbeatIntervalMs, () => {
      // A worker says nothing before its welcome, however long that takes.
      if (this.#greeting !== null && this.#session === null) return;
      this.end(new TrunklineError("UNAVAILABLE", "nothing was heard for three heartbeat intervals"));
    });
    this.#age = new StreamAge(deps.maxStreamAgeMs, () => this.#goAway("this stream is old", LEAVE_MS));
  }

  /** The stream's frames down, while it reads its frames up. */
  async *run(requests: AsyncIterable<WorkRequest>): AsyncGenerator<WorkResponse, void, undefined> {
    this.#deps.streams.add(this, this.#caller);
    // Not by this generator's end alone: one that waits for a client to read is not ended when that goes away.
    const forget = onClientGone(this.#signal, () => this.#gone());
    void this.#read(requests);
    try {
      yield* this.#writer.frames();
    } finally {
      forget();
      this.#gone();
    }
  }

  offer(delivery: Delivery): void {
    const claim = toClaim(delivery);
    this.#add(sizeOfClaim(claim), ({ claims }) => claims.push(claim));
    const session = this.#session;
    if (session !== null && this.#writer.pendingBytes > UNREAD_BYTES)
      this.#deps.exchange.dispatch.pause(session);
  }

  /** The worker has read, or is about to read, all that there was. */
  async #taken(): Promise<void> {
    this.#unreadReplies = 0;
    const session = this.#session;
    if (session?.stalled === true && !this.#left) this.#deps.exchange.dispatch.resume(session);
  }

  confirm(claimId: string): void {
    this.#add(ID_BYTES, ({ confirmed }) => confirmed.push(claimId));
  }

  revoke(claimId: string, cause: RevokeCause): void {
    const reason = revokeReason(cause);
    this.#add(ID_BYTES, ({ revoked }) =>
      revoked.push({ $typeName: "trunkline.v1.Revocation", claimId, reason }),
    );
    this.#endWhenAcked();
  }

  drained(): void {
    this.#drainedDue = true;
    this.#sayDrained();
  }

  /** A worker may take it for the end: the ack of what ended its last claim comes first. */
  #sayDrained(): void {
    if (!this.#drainedDue || this.#unacked > 0) return;
    this.#drainedDue = false;
    this.#add(2, (frame) => {
      frame.drained = { $typeName: "trunkline.v1.Drained" };
    });
  }

  end(error: Error): void {
    this.#leave("silent");
    this.#writer.end(error);
  }

  expelled(refusal: TrunklineError): void {
    this.end(refusal);
  }

  shutDown(deadlineMs: number): void {
    this.#shuttingDown = true;
    this.#goAway("the node is shutting down", deadlineMs);
    this.#endWhenAcked();
  }

  databaseLost(deadlineMs: number): void {
    // What is being written may take as long as the database is away.
    this.#goAway("the node has lost its database", deadlineMs, noDatabase(), 0);
  }

  /** No claim follows; what the worker holds it may still answer here until its next stream is open. */
  #goAway(
    message: string,
    deadlineMs: number,
    end = shuttingDown(),
    lastClaimsMs = deadlineMs * LAST_CLAIMS_PART,
  ): void {
    if (this.#goingAway || this.#left) return;
    this.#goingAway = true;
    this.#age.after(deadlineMs, () => this.end(end));
    const say = (): void => {
      if (this.#left) return;
      this.#saidGoaway = true;
      this.#add(GOAWAY_BYTES, (frame) => {
        frame.goaway = goawayMessage(message, deadlineMs);
      });
      this.#endWhenAcked();
    };
    if (this.#session === null) say();
    else this.#deps.exchange.sessions.lastClaims(this.#session, this, lastClaimsMs, say);
  }

  /** Adds to the frame that leaves next; the welcome comes before everything else. */
  #add(bytes: number, put: (frame: WorkResponse) => void): void {
    if (this.#early === null) this.#writer.add(bytes, put);
    else this.#early.push(() => this.#writer.add(bytes, put));
  }

  /** As {@link #add}, for what answers the worker. */
  #reply(bytes: number, put: (frame: WorkResponse) => void): void {
    this.#add(bytes, put);
    this.#unreadReplies += bytes;
    const max = LIMITS.workReplyBytes;
    if (this.#unreadReplies <= max) return;
    const message = `${this.#unreadReplies} bytes of replies are unread; allowed are at most ${max}`;
    this.end(new TrunklineError("UNAVAILABLE", message));
  }

  async #read(requests: AsyncIterable<WorkRequest>): Promise<void> {
    try {
      for await (const frame of requests) {
        this.#watchdog.heard();
        // What a stream says after it has left is said again on the next one.
        if (!this.#left) await this.#take(frame);
      }
    } catch (error) {
      if (isUnreadable(error)) this.end(asError(error));
      else this.#gone();
      return;
    }
    this.#readEnded = true;
    if (this.#session !== null) this.#deps.exchange.sessions.noMoreClaims(this.#session, this);
    this.#endWhenAcked();
  }

  async #take(frame: WorkRequest): Promise<void> {
    try {
      if (this.#session === null) await this.#welcome(frame);
      else if (frame.hello !== undefined) throw violation("hello may only be in a stream's first frame");
      if (this.#session !== null && !this.#left) this.#apply(this.#session, frame);
    } catch (error) {
      this.end(toTrunklineError(error));
    }
  }

  /** The first frame of a stream says who is on it. */
  async #welcome({ hello }: WorkRequest): Promise<void> {
    if (hello === undefined) throw violation("the first frame of a Work stream must have hello");
    const { exchange } = this.#deps;
    const greeting = exchange.sessions.hello(toHelloRequest(hello, this.#caller.scope), this);
    this.#greeting = greeting.then(
      ({ session }) => session,
      () => null,
    );
    const { session, verdicts, start } = await greeting;
    this.#session = session;
    this.#watchdog.heard();
    const early = this.#early ?? [];
    this.#early = null;
    this.#add(WELCOME_BYTES + verdicts.length * ID_BYTES, (frame) => {
      frame.welcome = toWelcome(exchange, verdicts);
    });
    for (const add of early) add();
    // A worker that says hello while the node goes down is told so, and nothing more.
    if (this.#goingAway) exchange.sessions.noMoreClaims(session, this);
    else if (!this.#left) start();
  }

  #apply(session: Session, frame: WorkRequest): void {
    const { exchange } = this.#deps;
    session.heardAt = performance.now();
    for (const claimId of frame.accepted) exchange.heartbeats.accept(session, claimId);
    for (const deferral of frame.deferrals) this.#deferral(session, deferral);
    for (const answer of frame.answers) this.#answer(session, answer);
    for (const claimId of frame.releases) this.#release(session, claimId);
    if (frame.heartbeat !== undefined) {
      const progress = frame.heartbeat.progress.filter(isGoodProgress);
      const lost = exchange.heartbeats.beat(session, frame.heartbeat.claims, progress);
      this.#reply(sizeOfIds(lost), (response) => {
        response.heartbeatAck = { $typeName: "trunkline.v1.HeartbeatAck", lost };
      });
    }
    if (frame.drain !== undefined) exchange.sessions.drain(session);
    if (frame.grant > 0) {
      exchange.dispatch.grant(session, Math.min(frame.grant, LIMITS.credit - session.credit));
    }
  }

  #answer(session: Session, answer: Answer): void {
    const held = session.held.get(answer.claimId);
    this.#acked(answer.claimId, () => applyAnswer(this.#deps, this.#caller.scope, held?.call, answer));
  }

  #deferral(session: Session, deferral: Deferral): void {
    const held = session.held.get(deferral.claimId);
    this.#acked(deferral.claimId, () => applyDeferral(this.#deps, this.#caller.scope, held?.call, deferral));
  }

  #release(session: Session, claimId: string): void {
    const held = session.held.get(claimId);
    this.#acked(claimId, () => applyRelease(this.#deps, this.#caller.scope, held?.call, claimId));
  }

  /** Does the work of one item, and acknowledges it after its commit, or says what was wrong (I11). */
  #acked(claimId: string, work: () => Promise<ItemDone>): void {
    if (++this.#unacked > LIMITS.workItemsWaiting) {
      this.end(overloaded(`${this.#unacked} items of this stream wait for the database`));
    }
    acknowledged(this.#deps, claimId, work).then(
      (ack) => {
        this.#unacked--;
        const rest = ack.problem === undefined ? 0 : PROBLEM_BYTES;
        this.#reply(ID_BYTES + sizeOfId(claimId) + rest, ({ acks }) => acks.push(ack));
        this.#sayDrained();
        this.#endWhenAcked();
      },
      (error: unknown) => {
        this.#unacked--;
        this.end(toTrunklineError(error));
      },
    );
  }

  /** A worker that has closed its side still gets its acks. */
  #endWhenAcked(): void {
    if (this.#unacked > 0 || this.#left) return;
    const holds = this.#session !== null && this.#session.held.size > 0;
    if (this.#shuttingDown && this.#saidGoaway && !holds) this.end(shuttingDown());
    else if (this.#readEnded) {
      this.#leave("closed");
      this.#writer.end();
    }
  }

  /** Nobody reads any more. */
  #gone(): void {
    this.#leave("closed");
    this.#writer.abandon();
  }

  /** Lets the session go, once: no claim leaves after it, and those that did not are taken back. */
  #leave(how: "closed" | "silent"): void {
    if (this.#left) return;
    this.#left = true;
    this.#watchdog.stop();
    this.#age.stop();
    for (const frame of this.#writer.pending()) {
      for (const { claimId } of frame.claims) this.#takeBack(claimId);
      frame.claims = [];
    }
    void this.#detach(how);
  }

  #takeBack(claimId: string): void {
    const held = this.#session?.held.get(claimId);
    if (held !== undefined) this.#deps.exchange.sessions.takeBackUnframed(held.call);
  }

  async #detach(how: "closed" | "silent"): Promise<void> {
    try {
      // A hello that is under way has the session already; one that failed has let it go by itself.
      const session = this.#session ?? (await this.#greeting);
      if (session !== null) await this.#deps.exchange.sessions.streamEnded(session, this, how);
    } catch (error) {
      this.#deps.onError(error);
    } finally {
      this.#deps.streams.remove(this);
    }
  }
}

function violation(message: string): TrunklineError {
  return new TrunklineError("PROTOCOL_VIOLATION", message, { metadata: { field: "hello" } });
}
