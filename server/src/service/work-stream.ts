import { create } from "@bufbuild/protobuf";
import {
  WorkResponseSchema,
  type Answer,
  type Claim,
  type Deferral,
  type Deferred,
  type Hello,
  type WorkRequest,
  type WorkResponse,
} from "@trunkline/proto/worker";
import type { RevokeCause } from "../core/event.js";
import { TrunklineError } from "../core/error.js";
import { checkJsonText } from "../core/json-text.js";
import { LIMITS } from "../core/limits.js";
import type { Scope } from "../core/scope.js";
import type { Delivery, WorkSink } from "../exchange/delivery.js";
import type { Session } from "../exchange/session.js";
import type { ServiceDeps } from "./deps.js";
import { asError, isFault, toProblem, toTrunklineError } from "./error-map.js";
import { FrameWriter } from "./frame-writer.js";
import { shuttingDown, type EndableStream } from "./open-streams.js";
import { Watchdog } from "./watchdog.js";
import { applyAnswer, applyDeferral, applyRelease } from "./work-items.js";
import { revokeReason, toClaim, toHelloRequest, toWelcome } from "./work-convert.js";

/** Roughly what an id and its tags take on the wire. */
const ID_BYTES = 32;
const CLAIM_BYTES = 256;

/** One worker's stream: frames up are applied in the order of their fields, frames down are gathered. */
export class WorkStream implements WorkSink, EndableStream {
  readonly #deps: ServiceDeps;
  readonly #scope: Scope;
  readonly #writer = new FrameWriter<WorkResponse>(() => create(WorkResponseSchema));
  readonly #watchdog: Watchdog;
  #session: Session | null = null;
  /** Answers, deferrals and releases whose acks are still to come. */
  #unacked = 0;
  #readEnded = false;
  /** The stream went silent, or was ended from here: the worker did not leave. */
  #endedHere = false;
  #shuttingDown = false;

  constructor(deps: ServiceDeps, scope: Scope, signal: AbortSignal) {
    this.#deps = deps;
    this.#scope = scope;
    this.#watchdog = new Watchdog(deps.exchange.heartbeatIntervalMs, () => {
      this.end(new TrunklineError("UNAVAILABLE", "nothing was heard for three heartbeat intervals"));
    });
    signal.addEventListener("abort", () => this.#writer.end(), { once: true });
  }

  /** The stream's frames down, while it reads its frames up. */
  async *run(requests: AsyncIterable<WorkRequest>): AsyncGenerator<WorkResponse, void, undefined> {
    this.#deps.streams.add(this);
    void this.#read(requests);
    try {
      yield* this.#writer.frames();
    } finally {
      await this.#close();
    }
  }

  offer(delivery: Delivery): void {
    const claim = toClaim(delivery);
    this.#add(CLAIM_BYTES + claim.inputJson.length, ({ claims }) => claims.push(claim));
  }

  confirm(claimId: string): void {
    this.#add(ID_BYTES, ({ confirmed }) => confirmed.push(claimId));
  }

  revoke(claimId: string, cause: RevokeCause): void {
    const reason = revokeReason(cause);
    this.#add(ID_BYTES, ({ revoked }) =>
      revoked.push({ $typeName: "trunkline.v1.Revocation", claimId, reason }),
    );
  }

  drained(): void {
    this.#add(2, (frame) => {
      frame.drained = { $typeName: "trunkline.v1.Drained" };
    });
  }

  end(error: TrunklineError): void {
    this.#endedHere = true;
    this.#writer.end(error);
  }

  shutDown(): void {
    this.#endedHere = true;
    this.#shuttingDown = true;
    this.#endWhenAcked();
  }

  #add(bytes: number, put: (frame: WorkResponse) => void): void {
    this.#writer.add(bytes, put);
  }

  async #read(requests: AsyncIterable<WorkRequest>): Promise<void> {
    try {
      for await (const frame of requests) {
        this.#watchdog.heard();
        const session = this.#session ?? (await this.#hello(frame));
        session.heardAt = performance.now();
        this.#apply(session, frame);
      }
      this.#readEnded = true;
      this.#endWhenAcked();
    } catch (error) {
      this.#writer.end(asError(error));
    }
  }

  /** The first frame of a stream says who is on it. */
  async #hello({ hello }: WorkRequest): Promise<Session> {
    if (hello === undefined) {
      throw new TrunklineError("PROTOCOL_VIOLATION", "the first frame of a Work stream must have hello", {
        metadata: { field: "hello" },
      });
    }
    return this.#welcome(hello);
  }

  async #welcome(hello: Hello): Promise<Session> {
    const { exchange } = this.#deps;
    const { session, verdicts, start } = await exchange.sessions.hello(
      toHelloRequest(hello, this.#scope),
      this,
    );
    this.#session = session;
    this.#add(CLAIM_BYTES + verdicts.length * ID_BYTES, (frame) => {
      frame.welcome = toWelcome(exchange, verdicts);
    });
    start();
    return session;
  }

  #apply(session: Session, frame: WorkRequest): void {
    const { exchange } = this.#deps;
    for (const claimId of frame.accepted) exchange.heartbeats.accept(session, claimId);
    for (const deferral of frame.deferrals) this.#deferral(session, deferral);
    for (const answer of frame.answers) this.#answer(session, answer);
    for (const claimId of frame.releases) this.#release(session, claimId);
    if (frame.heartbeat !== undefined) {
      const progress = frame.heartbeat.progress.filter(isGoodProgress);
      const lost = exchange.heartbeats.beat(session, frame.heartbeat.claims, progress);
      this.#add(ID_BYTES * (lost.length + 1), (response) => {
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
    this.#acked(answer.claimId, () => applyAnswer(this.#deps, this.#scope, held?.call, answer));
  }

  #deferral(session: Session, deferral: Deferral): void {
    const held = session.held.get(deferral.claimId);
    this.#acked(deferral.claimId, () => applyDeferral(this.#deps, this.#scope, held?.call, deferral));
  }

  #release(session: Session, claimId: string): void {
    const held = session.held.get(claimId);
    this.#acked(claimId, () => applyRelease(this.#deps, this.#scope, held?.call, claimId));
  }

  /** Does the work of one item, and acknowledges it after its commit, or says what was wrong (I11). */
  #acked(claimId: string, work: () => Promise<Deferred | undefined>): void {
    this.#unacked++;
    void settleItem(work).then(({ deferred, error }) => {
      this.#unacked--;
      if (error !== undefined) this.#failed(error);
      // An ack is for good; what could not be stored for now is sent again on the next stream.
      if (isUnavailable(error)) return;
      this.#add(error === undefined ? ID_BYTES : CLAIM_BYTES, ({ acks }) =>
        acks.push({
          $typeName: "trunkline.v1.Ack",
          claimId,
          ...(error === undefined ? {} : { problem: toProblem(error) }),
          ...(deferred === undefined ? {} : { deferred }),
        }),
      );
      this.#endWhenAcked();
    });
  }

  #failed(error: unknown): void {
    if (isFault(error)) this.#deps.onError(error);
    if (isUnavailable(error)) this.end(toTrunklineError(error));
  }

  /** A worker that has closed its side still gets its acks. */
  #endWhenAcked(): void {
    if (this.#unacked > 0) return;
    if (this.#shuttingDown) this.#writer.end(shuttingDown());
    else if (this.#readEnded) this.#writer.end();
  }

  async #close(): Promise<void> {
    this.#watchdog.stop();
    this.#deps.streams.remove(this);
    const unframed: Claim[] = this.#writer.abandon().flatMap(({ claims }) => claims);
    const session = this.#session;
    if (session === null) return;
    for (const { claimId } of unframed) {
      const held = session.held.get(claimId);
      if (held !== undefined) this.#deps.exchange.sessions.takeBackUnframed(held.call);
    }
    try {
      await this.#deps.exchange.sessions.streamEnded(session, this, this.#endedHere ? "silent" : "closed");
    } catch (error) {
      this.#deps.onError(error);
    }
  }
}

interface Settled {
  readonly deferred?: Deferred | undefined;
  readonly error?: unknown;
}

async function settleItem(work: () => Promise<Deferred | undefined>): Promise<Settled> {
  try {
    return { deferred: await work() };
  } catch (error) {
    return { error };
  }
}

function isUnavailable(error: unknown): boolean {
  return error !== undefined && toTrunklineError(error).reason === "UNAVAILABLE";
}

/** Progress is for display: what cannot be stored is left out. */
function isGoodProgress({ progressJson }: { readonly progressJson: string }): boolean {
  try {
    checkJsonText(progressJson, "progress_json", { maxBytes: LIMITS.progressBytes });
    return true;
  } catch {
    return false;
  }
}
