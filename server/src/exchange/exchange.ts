import { isEnded, type Call, type CallRef, type ClaimedCall } from "../core/call.js";
import type { CallEvent, Timers } from "../core/event.js";
import type { Scope } from "../core/scope.js";
import type { ClaimedRow } from "../store/calls-claim.js";
import type { Database } from "../store/database.js";
import type { Hint } from "../store/notify.js";
import type { CallRecord } from "../store/rows.js";
import { Availability } from "./availability.js";
import { CallWriter, type Applied, type Committed } from "./call-writer.js";
import { Dispatch, type Assignment } from "./dispatch.js";
import { Heartbeats } from "./heartbeats.js";
import { Hints } from "./hints.js";
import { Opener, type Born, type OpenOutcome, type OpenRequest } from "./opener.js";
import { RunEndings } from "./run-endings.js";
import { RunWatchers } from "./run-watchers.js";
import { Runs } from "./runs.js";
import { Sessions } from "./sessions.js";
import { spanParent } from "./trace.js";
import { Waiters } from "./waiters.js";

/** What an exchange is given. */
export interface ExchangeOptions {
  readonly db: Database;
  /** Connections of their own for what keeps the node and its sessions alive. Default: `db`. */
  readonly upkeep?: Database;
  /** This node's id, new at every start. */
  readonly nodeId: string;
  readonly heartbeatIntervalMs: number;
  /** Whether the hints of other nodes arrive, as far as that can be known. Default: they do not. */
  readonly hearsHints?: () => boolean;
  readonly onError: (error: unknown) => void;
}

/**
 * The node's working memory, over the store: who is connected, what room they have, who waits for what.
 * Nothing in it is needed for correctness; a node that dies takes nothing along.
 */
export class Exchange {
  readonly db: Database;
  readonly upkeep: Database;
  readonly nodeId: string;
  readonly heartbeatIntervalMs: number;
  readonly hearsHints: () => boolean;
  readonly availability: Availability;
  readonly runs: Runs;
  readonly runEndings = new RunEndings();
  readonly waiters: Waiters;
  readonly watchers: RunWatchers;
  readonly dispatch: Dispatch;
  readonly sessions: Sessions;
  readonly heartbeats: Heartbeats;
  readonly hints: Hints;
  readonly #onError: (error: unknown) => void;
  readonly #writer: CallWriter;
  readonly #opener: Opener;
  readonly #onDue = new Set<(inMs: number) => void>();
  readonly #onEnded = new Set<(call: Call) => void>();

  constructor(options: ExchangeOptions) {
    const { db, nodeId, heartbeatIntervalMs, onError } = options;
    const { upkeep = db, hearsHints = () => false } = options;
    this.db = db;
    this.upkeep = upkeep;
    this.availability = new Availability(heartbeatIntervalMs);
    this.nodeId = nodeId;
    this.heartbeatIntervalMs = heartbeatIntervalMs;
    this.hearsHints = hearsHints;
    this.#onError = onError;
    this.runs = new Runs(db, (inMs) => this.#dueIn(inMs));
    this.hints = new Hints({ db, nodeId, intervalMs: heartbeatIntervalMs, onError });
    this.waiters = new Waiters(db);
    this.watchers = new RunWatchers(db, onError);
    this.dispatch = new Dispatch({
      db,
      onError,
      hearsHints,
      onClaimed: (assignment, row) => this.#claimed(assignment, row),
      onLeft: (queue) => this.hints.queued(queue),
    });
    const apply = (ref: CallRef, event: CallEvent): Promise<Applied> => this.apply(ref, event, null);
    this.sessions = new Sessions({
      upkeep,
      nodeId,
      heartbeatIntervalMs,
      dispatch: this.dispatch,
      apply,
      load: (ref) => this.load(ref),
      onError,
    });
    this.heartbeats = new Heartbeats({
      db,
      heartbeatIntervalMs,
      sessions: this.sessions,
      apply,
      onProgress: (ref) => this.watchers.progressed(ref),
      onError,
    });
    this.#writer = new CallWriter({
      db,
      recall: (ref) => this.sessions.recall(ref),
      onCommit: (committed) => this.#committed(committed),
    });
    this.#opener = new Opener({
      db,
      dispatch: this.dispatch,
      othersAlive: () => this.hints.othersAlive,
      onBorn: (born) => this.#born(born),
    });
  }

  /** Opens a call; see {@link Opener.open}. */
  open(request: OpenRequest): Promise<OpenOutcome> {
    return this.#opener.open(request);
  }

  /** Applies an event to a call; see {@link CallWriter.apply}. Null scope: the server's own doing. */
  apply(ref: CallRef, event: CallEvent | Promise<CallEvent>, scope: Scope | null): Promise<Applied> {
    return this.#writer.apply(ref, event, scope);
  }

  /** Applies an event to the call as it was read; see {@link CallWriter.applyAsRead}. */
  applyAsRead(call: Call, event: CallEvent): Promise<Applied | undefined> {
    return this.#writer.applyAsRead(call, event);
  }

  /** What another node says to have done: looked at now, and not only when the next poll comes. */
  heard({ queued, ended }: Omit<Hint, "node">): void {
    this.hints.othersAlive = true;
    if (queued === null) this.dispatch.wakeAll();
    else for (const [projectId, tool] of queued) this.dispatch.queuedElsewhere(projectId, tool);
    this.waiters.lookAt(ended).catch(this.#onError);
    this.watchers.heard(ended);
  }

  /** Hints may have been missed, and among them that another node has started. */
  missed(): void {
    this.heard({ queued: null, ended: null });
  }

  /** Chooses no session any more, and leaves no timer behind: the node shuts down. */
  stop(): void {
    this.dispatch.stop();
    this.sessions.stop();
    this.watchers.stop();
  }

  /** The call as the database has it now, or undefined. */
  load(ref: CallRef): Promise<Call | undefined> {
    return this.#writer.load(ref);
  }

  /** Whether an event of the call is being applied here. */
  isBusy(ref: CallRef): boolean {
    return this.#writer.isBusy(ref);
  }

  /** Calls `listener` with the milliseconds to each due time that is set here, as a hint to the sweep. */
  onDue(listener: (inMs: number) => void): void {
    this.#onDue.add(listener);
  }

  /** Calls `listener` with each call that has ended by this node's doing, after the commit. */
  onEnded(listener: (call: Call) => void): void {
    this.#onEnded.add(listener);
  }

  #born({ call, request, assignment, timers }: Born): void {
    this.waiters.moved(call, null);
    this.watchers.callChanged(call);
    this.#hintDue(timers);
    if (assignment !== null && call.state === "claimed") {
      const { attemptTimeoutMs, totalTimeoutMs } = call.policy;
      const limits = [attemptTimeoutMs, totalTimeoutMs].filter((limit) => limit !== null);
      this.sessions.deliver(assignment, {
        call,
        inputJson: request.inputJson,
        labels: request.run.record.labels,
        traceparent: spanParent(request.traceparent, call),
        timeLeftMs: limits.length === 0 ? null : Math.min(...limits),
      });
    } else if (call.state === "queued") this.#queued(call, request.run.record.toolset);
  }

  /** A call may be claimed now, here or by another node. The toolset is its run's, where that is known. */
  #queued(call: Call, toolset?: string | null): void {
    if (!this.dispatch.queued(call, toolset)) this.hints.queued(call);
  }

  #claimed(assignment: Assignment, { record }: ClaimedRow): void {
    const { call } = record;
    this.watchers.callChanged(call);
    if (call.state !== "claimed") return;
    this.sessions.deliver(assignment, {
      call,
      inputJson: record.inputJson,
      labels: record.labels,
      traceparent: spanParent(record.traceparent, call),
      timeLeftMs: timeLeft(record),
    });
    if (call.policy.attemptTimeoutMs !== null) this.#dueIn(call.policy.attemptTimeoutMs);
  }

  #committed({ before, change, times }: Committed): void {
    const { next, revoked, timers } = change;
    if (before.state === "claimed") this.sessions.changed(next, revoked);
    this.watchers.callChanged(next);
    if (isEnded(next)) {
      this.waiters.moved(next, { call: next, endedAt: times.endedAt });
      this.hints.ended(next);
      for (const listener of this.#onEnded) listener(next);
      return;
    }
    this.#hintDue(timers);
    if (next.state === "queued" && !next.backingOff) this.#queued(next);
  }

  #hintDue({ ready, attempt, defer, total }: Timers): void {
    for (const timer of [ready, attempt, defer, total])
      if (typeof timer === "object") this.#dueIn(timer.inMs);
  }

  #dueIn(inMs: number): void {
    for (const listener of this.#onDue) listener(inMs);
  }
}

/** Until the claim's attempt or its call times out, by the database's clock. */
function timeLeft(record: CallRecord): number | null {
  const limits = [record.attemptTimeoutAt, record.totalTimeoutAt].filter((limit) => limit !== null);
  if (limits.length === 0 || record.claimedAt === null) return null;
  return Math.max(0, Math.round((Math.min(...limits) - record.claimedAt) / 1_000));
}

/** Narrowing for who holds calls of unknown state. */
export function isClaimed(call: Call): call is ClaimedCall {
  return call.state === "claimed";
}
