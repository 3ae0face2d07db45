import type { Scope } from "../core/scope.js";
import type { QueueFilter } from "../store/calls-claim.js";
import type { Session } from "./session.js";

/** How long a queue that was read empty counts as empty. */
const FRESH_MS = 1_000;
/** The same where a poll found it so and hints tell when it is filled; longer than from one poll to the next. */
const SURE_MS = 10_000;

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
  /** When a read began that found it empty; -Infinity when it may hold something. */
  #emptyAt = -Infinity;
  /** The same of polls, whose reads pass over nothing: a claim round passes over rows that others have locked. */
  #surelyEmptyAt = -Infinity;
  #fills = 0;

  constructor({ projectId, namespace, runId }: Scope, tool: string, toolset: string | null) {
    this.projectId = projectId;
    this.namespace = namespace;
    this.runId = runId;
    this.toolset = toolset;
    this.tool = tool;
  }

  /** Whether its sessions are bound to an end user or a run, so that there may be very many such queues. */
  get isBound(): boolean {
    return this.namespace !== null || this.runId !== undefined;
  }

  /** Goes up when it gets a call, so that a read which began before it proves nothing. */
  get fills(): number {
    return this.#fills;
  }

  /** Whether nothing was heard of it since it was filled. */
  get mayBeFilled(): boolean {
    return this.#emptyAt === -Infinity;
  }

  /** Whether it takes calls of runs with this toolset. */
  takes(toolset: string | null): boolean {
    return this.toolset === null || this.toolset === toolset;
  }

  /** It has got a call, or may have. */
  filled(): void {
    this.#emptyAt = -Infinity;
    this.#surelyEmptyAt = -Infinity;
    this.#fills++;
  }

  /** A claim round that began then found no more, having seen so many fills. */
  claimedOut(startedAt: number, fills: number): void {
    if (this.#fills === fills) this.#emptyAt = startedAt;
  }

  /** A poll that began then found it empty, having seen so many fills. */
  polledEmpty(startedAt: number, fills: number): void {
    if (this.#fills !== fills) return;
    this.#emptyAt = startedAt;
    this.#surelyEmptyAt = startedAt;
    this.kept = false;
  }

  /** Whether a poll found it empty after `since`. */
  wasPolledEmpty(since: number): boolean {
    return this.#surelyEmptyAt > since;
  }

  /** Whether it counts as empty. `hearsHints`: whether other nodes' hints arrive, which say when it is filled. */
  isEmpty(now: number, hearsHints: () => boolean): boolean {
    return now - this.#emptyAt <= FRESH_MS || (now - this.#surelyEmptyAt <= SURE_MS && hearsHints());
  }
}
