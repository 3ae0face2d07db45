import type { ClaimedCall } from "../core/call.js";
import type { Scope } from "../core/scope.js";
import type { WorkSink } from "./delivery.js";
import type { ToolQueue } from "./tool-queue.js";

/** A claim that a session of this node holds. */
export interface HeldClaim {
  readonly id: string;
  /** The call as this node last knew it. */
  call: ClaimedCall;
  /** Whether the worker said that it has it: by accepting it, or by naming it. */
  known: boolean;
  /** When it was offered last, or found in the database; monotonic milliseconds. */
  offeredAt: number;
}

/** What a worker says of itself in its hello. */
export interface SessionFacts {
  readonly sessionId: string;
  readonly nonce: string;
  readonly worker: string;
  readonly sdk: string;
  readonly tools: readonly string[];
  /** Only calls of runs with this toolset; null: any. */
  readonly toolset: string | null;
  /** Numbers the hellos of the process; 0: not numbered. */
  readonly helloNumber: number;
}

/**
 * A worker process as this node knows it. Its credit belongs to its stream and dies with it; its claims
 * survive the stream.
 */
export class Session {
  readonly scope: Scope;
  /** The server's number of it, the same on all nodes. */
  readonly number: number;
  readonly held = new Map<string, HeldClaim>();
  facts: SessionFacts;
  /** Goes up by one with every hello, on any node. */
  epoch: number;
  stream: WorkSink | null = null;
  /** Claims that it may still be sent on this stream. */
  credit = 0;
  draining = false;
  /** While its hello is being settled: not all that it names is held yet. */
  greeting = false;
  /** Whether its stream can still carry claims: false once the worker has closed its side. */
  reachable = true;
  /** Whether so much is unread on its stream that it is not sent more claims for now. */
  stalled = false;
  /** Its stream will say goaway as soon as what was chosen for it has been offered. */
  leaving = false;
  /** Claims that it was chosen for and that are still being written. */
  assigned = 0;
  /** Calls that it was given so far. */
  handedOut = 0;
  /** Called, once, when none is being written any more. */
  whenSettled: (() => void) | null = null;
  /** When anything was last heard from it; monotonic milliseconds. */
  heardAt: number;
  /** Those of its tools, in their order. */
  queues: readonly ToolQueue[] = [];
  /** The same for all sessions that ask for the same. */
  groupKey = "";

  constructor(scope: Scope, number: number, epoch: number, facts: SessionFacts, now: number) {
    this.scope = scope;
    this.number = number;
    this.epoch = epoch;
    this.facts = facts;
    this.heardAt = now;
  }

  /** Whether a claim may be chosen for it now. */
  hasRoom(): boolean {
    if (this.credit <= 0 || this.stream === null || !this.reachable) return false;
    return !this.stalled && !this.leaving && !this.draining;
  }

  /** What it was chosen for is written, or given up. */
  settled(): void {
    this.assigned--;
    if (this.assigned > 0) return;
    this.whenSettled?.();
    this.whenSettled = null;
  }
}
