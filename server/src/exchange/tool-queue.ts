import type { Scope } from "../core/scope.js";
import type { QueueFilter } from "../store/calls-claim.js";
import { Patience } from "./patience.js";
import type { Session } from "./session.js";

/** How long a queue that was read empty counts as empty. */
const FRESH_MS = 1_000;
/** The same where a poll found it so and hints tell when it is filled; longer than from one poll to the next. */
const SURE_MS = 10_000;

/** When a read began, and what the queue had got by then. */
export interface Mark {
  readonly at: number;
  readonly fills: number;
  readonly blindFills: number;
}

/**
 * The queued calls of a tool that sessions of one scope and toolset are offered, as far as this node knows them. Times
 * are monotonic milliseconds.
 */
export class ToolQueue implements QueueFilter {
  readonly projectId: number;
  readonly namespace: string | null;
  readonly runId: string | undefined;
  readonly toolset: string | null;
  readonly tool: string;
  /** Its sessions that have room, the longest unused first. */
  readonly ready = new Set<Session>();
  /** Its sessions that have a stream. */
  readonly served = new Set<Session>();
  /** A call was queued here that a session here was to take, and no read has shown yet that it was taken. */
  kept = false;
  /** When a read began that found nothing in it; -Infinity: it may hold anything. */
  #readAt = -Infinity;
  /** The same of polls, if it got nothing since: they pass over nothing, as claim rounds do over what others have locked. */
  #surelyEmptyAt = -Infinity;
  /** Calls that it has got here, and times that it may have got others. */
  #fills = 0;
  #blindFills = 0;
  /** The fills before the last read that found nothing. */
  #readFills = 0;
  /** The fills of which each has a slot in a claim round that is under way; -1: there is none. */
  #coveredFills = -1;
  #patience: Patience | null = null;

  constructor({ projectId, namespace, runId }: Scope, tool: string, toolset: string | null) {
    this.projectId = projectId;
    this.namespace = namespace;
    this.runId = runId;
    this.toolset = toolset;
    this.tool = tool;
  }

  /**
   * Whether one claim for all who have room does not do: they are bound to an end user or a run, so that there may be
   * very many such queues, or do not all ask for the same.
   */
  get isScattered(): boolean {
    if (this.namespace !== null || this.runId !== undefined) return true;
    const [first] = this.ready;
    for (const { groupKey } of this.ready) if (groupKey !== first?.groupKey) return true;
    return false;
  }

  /** Whether it takes calls of runs with this toolset. */
  takes(toolset: string | null): boolean {
    return this.toolset === null || this.toolset === toolset;
  }

  /** Whether it has got something that no read has shown to be gone. */
  get mayBeFilled(): boolean {
    return this.#readAt === -Infinity || this.#fills !== this.#readFills;
  }

  /** Whether all that it may hold is being claimed, with a slot for each: what comes now passes none of it. */
  get isCovered(): boolean {
    return this.#coveredFills === this.#fills;
  }

  /** Whether its sessions take calls so fast that a new one had better wait for their room than be queued. */
  hasRoomSoon(): boolean {
    if (this.served.size === 0) return false;
    let taken = 0;
    for (const { handedOut } of this.served) taken += handedOut;
    this.#patience ??= new Patience();
    return this.#patience.isWorthwhile(taken);
  }

  /** It has got one call, from here. */
  got(): void {
    this.#surelyEmptyAt = -Infinity;
    this.#fills++;
  }

  /** It may have got any number of calls. */
  filled(): void {
    this.#readAt = -Infinity;
    this.#surelyEmptyAt = -Infinity;
    this.#fills++;
    this.#blindFills++;
  }

  /** A claim round begins, which has a slot for each call that it may hold. */
  cover(): void {
    this.#coveredFills = this.#fills;
  }

  /** The round is over. */
  uncover(): void {
    this.#coveredFills = -1;
  }

  /** What a read has to be told by when it ends: a fill that came after its begin may be unseen. */
  mark(): Mark {
    return { at: performance.now(), fills: this.#fills, blindFills: this.#blindFills };
  }

  /** Whether it has got something since. */
  isFilledSince({ fills }: Mark): boolean {
    return this.#fills !== fills;
  }

  /** A claim round that began at the mark has left nothing. */
  claimedOut({ at, fills, blindFills }: Mark): void {
    if (this.#blindFills !== blindFills) return;
    this.#readAt = at;
    this.#readFills = fills;
  }

  /** A poll that began at the mark found nothing. */
  polledEmpty(mark: Mark): void {
    this.claimedOut(mark);
    if (this.isFilledSince(mark)) return;
    this.#surelyEmptyAt = mark.at;
    this.kept = false;
  }

  /** Whether a poll found it empty after `since`. */
  wasPolledEmpty(since: number): boolean {
    return this.#surelyEmptyAt > since;
  }

  /** How many calls it may hold. `hearsHints`: whether other nodes' hints arrive, which say when it is filled. */
  mayHold(now: number, hearsHints: () => boolean): number {
    const isKnown = now - this.#readAt <= FRESH_MS || (now - this.#surelyEmptyAt <= SURE_MS && hearsHints());
    return isKnown ? this.#fills - this.#readFills : Infinity;
  }
}
