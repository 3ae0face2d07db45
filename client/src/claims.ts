import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampDate } from "@bufbuild/protobuf/wkt";
import { FailureKind } from "@trunkline/proto/model";
import {
  ClaimVerdict_Standing as Verdict,
  DeferralSchema,
  RevokeReason,
  type Ack,
  type Answer,
  type Claim,
} from "@trunkline/proto/worker";
import { ClaimBook } from "./claim-book.js";
import type { Deferred } from "./context.js";
import { TrunklineError } from "./errors.js";
import { wireFailure } from "./failure.js";
import type { HandlerOutcome, HandlerPort } from "./handler.js";
import { HeldClaim } from "./held-claim.js";
import { LIMITS } from "./limits.js";
import { Outbox, type OutboxItem } from "./outbox.js";
import { errorFromProblem, translate } from "./problem.js";

/** What an item takes in a frame beside its payload, roughly, in bytes. */
const ITEM_BYTES = 200;

/** What {@link Claims} needs of its session and its worker. */
export interface ClaimsPort {
  hasHandler(tool: string): boolean;
  /** Starts the claim's handler. */
  run(held: HeldClaim): void;
  report(error: unknown, held?: HeldClaim): void;
  /** Sends an item now, if there is a carrier; it is in the outbox already. */
  send(item: OutboxItem): void;
  /** Sends a heartbeat now, if there is a carrier. */
  heartbeat(): void;
  /** A handler slot became free. */
  freed(): void;
}

const REVOKED: Record<RevokeReason, string> = {
  [RevokeReason.UNSPECIFIED]: "the server took it back",
  [RevokeReason.SETTLED]: "the call was settled from outside",
  [RevokeReason.CANCELED]: "the call was canceled",
  [RevokeReason.RUN_ENDED]: "the run has ended",
  [RevokeReason.TIMEOUT]: "the attempt or the call timed out",
  [RevokeReason.LEASE_LOST]: "its lease ended; another worker may have the call",
};

/** Somebody wanted these; the others are faults, which a worker's owner wants to hear of. */
const WANTED: ReadonlySet<RevokeReason> = new Set([
  RevokeReason.SETTLED,
  RevokeReason.CANCELED,
  RevokeReason.RUN_ENDED,
]);

interface DeferralWaiter {
  resolve(stored: Omit<Deferred, "token">): void;
  reject(error: unknown): void;
}

/** What became of a claim that arrived. */
export type Receipt = "accepted" | "handed_back" | "known";

/**
 * The claims of a worker, from their receipt to the acknowledgement of what became of them: which handlers
 * start, what they say, and what the server says about them. It knows nothing of what carries them.
 */
export class Claims implements HandlerPort {
  readonly book: ClaimBook;
  readonly outbox = new Outbox();
  /** The largest result, in bytes, as the server announced it. */
  maxResultBytes: number = LIMITS.payloadBytes;
  readonly #port: ClaimsPort;
  readonly #deferrals = new Map<string, DeferralWaiter>();
  #ready: HeldClaim[] = [];
  #draining = false;
  #over = false;

  constructor(concurrency: number, port: ClaimsPort) {
    this.book = new ClaimBook(concurrency);
    this.#port = port;
  }

  // From the handlers.

  heartbeat(): void {
    this.#port.heartbeat();
  }

  defer(held: HeldClaim, secret: string, timeoutMs: number | undefined): Promise<Omit<Deferred, "token">> {
    const { claimId, callId } = held.claim;
    const timeout = timeoutMs === undefined ? {} : { timeout: durationFromMs(timeoutMs) };
    const deferral = create(DeferralSchema, { claimId, callId, secret, ...timeout });
    return new Promise((resolve, reject) => {
      if (this.#over || this.book.get(claimId) !== held) {
        reject(new TrunklineError("CLAIM_LOST", "the claim is no longer held"));
        return;
      }
      // What a handler says when it ends is its last word, and may be on its way: nothing takes its place.
      if (held.standing === "over") {
        reject(new TrunklineError("CLAIM_LOST", "the handler has ended, and its call was answered"));
        return;
      }
      this.#deferrals.set(claimId, { resolve, reject });
      this.#send({ kind: "deferral", claimId, deferral, bytes: ITEM_BYTES });
    });
  }

  answer(held: HeldClaim, outcome: HandlerOutcome): void {
    const { claimId, callId } = held.claim;
    if (this.#over || this.book.get(claimId) !== held) return;
    const answer: Answer = { $typeName: "trunkline.v1.Answer", claimId, callId, outcome };
    this.#send({ kind: "answer", claimId, answer, bytes: payloadBytes(outcome) + ITEM_BYTES });
  }

  release(held: HeldClaim): void {
    if (this.book.freeSlot(held)) this.#port.freed();
  }

  report(error: unknown, held: HeldClaim): void {
    this.#port.report(error, held);
  }

  // From the worker.

  /** From now on every claim is handed back; those that have not started are at once. */
  drain(): void {
    this.#draining = true;
    for (const held of this.book.values()) if (held.releasable) this.#handBack(held);
  }

  /** Tells running handlers to stop; what they say is dropped. */
  abandon(error: Error): void {
    this.#over = true;
    for (const held of this.book.running()) held.lose(error);
    for (const waiter of this.#deferrals.values()) waiter.reject(error);
    this.#deferrals.clear();
  }

  // From the server.

  /** A claim came. When it is `accepted`, say so before the next turn: then its handler may start. */
  receive(claim: Claim): Receipt {
    if (this.book.get(claim.claimId) !== undefined) return "known";
    const held = new HeldClaim(claim);
    this.book.add(held);
    if (!this.#draining && this.#port.hasHandler(claim.tool)) {
      if (held.standing === "ready") this.#makeReady(held);
      return "accepted";
    }
    if (!this.#draining) {
      this.report(new TrunklineError("TOOL_UNKNOWN", `no handler for ${claim.tool}; handed back`), held);
    }
    this.#handBack(held);
    return "handed_back";
  }

  /** A claim's acceptance is stored; said twice it starts one handler. */
  confirm(claimId: string): void {
    const held = this.book.get(claimId);
    // Not when it was handed back meanwhile, or confirmed before.
    if (held?.standing !== "unconfirmed") return;
    held.standing = "ready";
    this.#makeReady(held);
  }

  /** What a welcome says about a claim. */
  judge(claimId: string, standing: Verdict): void {
    switch (standing) {
      case Verdict.CONFIRMED:
        this.confirm(claimId);
        break;
      case Verdict.ANSWERED:
      case Verdict.DEFERRED:
        this.lose(claimId, "it was answered before", false);
        break;
      case Verdict.LOST:
        this.lose(claimId, "it was taken back while the connection was cut");
        break;
      case Verdict.KEPT:
      case Verdict.UNSPECIFIED:
        break;
    }
  }

  revoke(claimId: string, reason: RevokeReason): void {
    this.lose(claimId, translate(REVOKED, reason, REVOKED[RevokeReason.UNSPECIFIED]), !WANTED.has(reason));
  }

  /** A claim is no longer held, unless it has something in the outbox: then only that item's ack counts. */
  lose(claimId: string, why: string, report = true): void {
    const held = this.book.get(claimId);
    if (held === undefined || this.outbox.has(claimId)) return;
    this.#forget(held, new TrunklineError("CLAIM_LOST", `the claim was lost: ${why}`), report);
  }

  /** What was stored of an item of the outbox. A second ack of the same item says nothing. */
  acknowledge(ack: Ack): void {
    const item = this.outbox.take(ack.claimId);
    const held = this.book.get(ack.claimId);
    if (item === undefined || held === undefined) return;
    const problem = ack.problem === undefined ? undefined : errorFromProblem(ack.problem);
    if (item.kind === "deferral") {
      this.#acknowledgeDeferral(held, ack, problem);
      return;
    }
    this.book.remove(held.id);
    // That the claim of something never started is gone is what a release is for.
    if (problem !== undefined && item.kind === "answer") this.report(problem, held);
  }

  /** A frame was refused for its size: its largest answer is not sent again as it was. */
  shrinkLargest(refusal: TrunklineError): void {
    const largest = this.outbox.largest();
    if (largest?.kind !== "answer" || largest.bytes <= LIMITS.frameTargetBytes) return;
    const held = this.book.get(largest.claimId);
    if (held === undefined) return;
    const message = `the answer has ${largest.bytes} bytes, and the server refused its frame: ${refusal.message}`;
    this.report(refusal, held);
    this.answer(held, { case: "failure", value: wireFailure(FailureKind.OVERSIZED, message) });
  }

  #send(item: OutboxItem): void {
    this.outbox.put(item);
    this.#port.send(item);
  }

  /** Handlers start in the next turn, when the frame with their acceptance was handed to the socket. */
  #makeReady(held: HeldClaim): void {
    if (this.#ready.push(held) === 1) this.#startReadySoon();
  }

  #startReadySoon(): void {
    setImmediate(() => {
      const ready = this.#ready;
      this.#ready = [];
      for (const next of ready) {
        if (next.standing !== "ready") continue;
        next.standing = "running";
        this.#port.run(next);
      }
    });
  }

  #handBack(held: HeldClaim): void {
    held.standing = "over";
    const { claimId, callId } = held.claim;
    this.#send({ kind: "release", claimId, callId, bytes: ITEM_BYTES });
    this.release(held);
  }

  #forget(held: HeldClaim, error: TrunklineError, report: boolean): void {
    this.book.remove(held.id);
    held.lose(error);
    if (report) this.report(error, held);
    if (held.standing === "running" || held.standing === "over") return;
    held.standing = "over";
    this.release(held);
  }

  #acknowledgeDeferral(held: HeldClaim, { deferred }: Ack, problem: TrunklineError | undefined): void {
    const waiter = this.#deferrals.get(held.id);
    this.#deferrals.delete(held.id);
    if (problem === undefined) {
      this.book.remove(held.id);
      const expiresAt = deferred?.expiresAt === undefined ? undefined : timestampDate(deferred.expiresAt);
      waiter?.resolve({ expiresAt, cutToRun: deferred?.cutToRun ?? false });
      return;
    }
    // Refused for what it says, the claim is still held; its handler decides what to do.
    const stillHeld = problem.reason === "INVALID_FIELD" || problem.reason === "LIMIT_EXCEEDED";
    if (!stillHeld) this.#forget(held, problem, false);
    waiter?.reject(problem);
  }
}

function payloadBytes(outcome: HandlerOutcome): number {
  if (outcome.case === "resultJson") return Buffer.byteLength(outcome.value);
  return Buffer.byteLength(outcome.value.message) + Buffer.byteLength(outcome.value.dataJson);
}
