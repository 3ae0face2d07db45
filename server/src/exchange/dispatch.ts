import type { CallFacts } from "../core/call.js";
import { reaches } from "../core/scope.js";
import {
  claimQueued,
  queuedTools,
  type ClaimedRow,
  type ClaimOutcome,
  type ClaimSlot,
} from "../store/calls-claim.js";
import type { Database } from "../store/database.js";
import { randomId } from "./random-id.js";
import type { Session } from "./session.js";
import { ToolQueue } from "./tool-queue.js";
import { Turns } from "./turns.js";

/** What tells who may take a call. */
export type DispatchedCall = Pick<CallFacts, "projectId" | "namespace" | "runId" | "tool">;

/** A session that was chosen for a call, with one credit taken. */
export interface Assignment {
  readonly session: Session;
  readonly claimId: string;
  readonly epoch: number;
}

/** What the dispatcher is given. */
export interface DispatchOptions {
  readonly db: Database;
  /** Told of each claim that a round made. */
  readonly onClaimed: (assignment: Assignment, row: ClaimedRow) => void;
  /** Told of a queue that holds calls which sessions here were to take and have not: other nodes may have room. */
  readonly onLeft: (queue: { readonly projectId: number; readonly tool: string }) => void;
  readonly onError: (error: unknown) => void;
  /** Whether other nodes' hints arrive, which say when a queue is no longer empty. */
  readonly hearsHints: () => boolean;
}

/** Slots of one claim round: so many, and so few that their inputs fit, if they are as large as the last ones. */
const ROUND_SLOTS = 500;
const ROUND_BYTES = 16 * 1024 * 1024;

/**
 * Brings calls and free slots together. A new call goes straight to a session with credit when its tool's
 * queue is known to be empty; everything else is handed out from the queue, in rounds: one statement for
 * all sessions that ask for the same.
 */
export class Dispatch {
  readonly #options: DispatchOptions;
  readonly #queues = new Map<string, ToolQueue>();
  readonly #rounds = new Set<string>();
  readonly #turns = new Turns();
  #roundsWanted = false;
  #roundSlots = ROUND_SLOTS;
  #stopped = false;
  #holds = 0;

  constructor(options: DispatchOptions) {
    this.#options = options;
  }

  /** Counts a session with a new stream among those that can be chosen. */
  add(session: Session): void {
    if (this.#stopped) return;
    this.#turns.add(session);
    session.queueKeys = session.facts.tools.map((tool) => queueKey(session.scope.projectId, tool));
    for (const [index, key] of session.queueKeys.entries()) {
      const tool = session.facts.tools[index] ?? "";
      this.#queue(key, session.scope.projectId, tool).served.add(session);
    }
    this.#refresh(session);
  }

  /** Chooses it no more: its stream has gone, or it drains. */
  remove(session: Session): void {
    this.#turns.remove(session);
    for (const key of session.queueKeys) {
      const queue = this.#queues.get(key);
      queue?.served.delete(session);
      queue?.ready.delete(session);
    }
  }

  /** Chooses nobody any more: the node shuts down. */
  stop(): void {
    this.#stopped = true;
    for (const queue of this.#queues.values()) this.#tellLeft(queue);
    this.#queues.clear();
  }

  /**
   * Chooses nobody until the result is called; what is queued meanwhile stays so. Rounds that are under way are not
   * waited for.
   */
  hold(): () => void {
    this.#holds++;
    return () => {
      if (--this.#holds === 0) this.wakeAll();
    };
  }

  /** Adds to a session's credit. */
  grant(session: Session, slots: number): void {
    if (slots <= 0) return;
    session.credit += slots;
    this.#refresh(session);
  }

  /** Chooses a session no more until {@link resume}: it does not read what it was sent. */
  pause(session: Session): void {
    session.stalled = true;
    for (const key of session.queueKeys) this.#queues.get(key)?.ready.delete(session);
  }

  /** Chooses a session again. */
  resume(session: Session): void {
    session.stalled = false;
    this.#refresh(session);
  }

  /** Takes a session with room for a new call, if its tool's queue is known to be empty. */
  assign(call: DispatchedCall, toolset: string | null): Assignment | null {
    const queue = this.#queues.get(queueKey(call.projectId, call.tool));
    if (queue === undefined || queue.ready.size === 0 || this.#holds > 0) return null;
    if (!queue.isEmpty(performance.now(), this.#options.hearsHints)) {
      this.#want();
      return null;
    }
    for (const session of queue.ready) {
      if (!serves(session, call, toolset)) continue;
      this.#take(session);
      return { session, claimId: randomId(), epoch: session.epoch };
    }
    return null;
  }

  /** The row of a new call is written, and its claim was offered. */
  offered({ session }: Assignment): void {
    session.settled();
  }

  /** Gives a credit back: no row was written for it. */
  putBack({ session, epoch }: Assignment): void {
    session.settled();
    if (session.epoch === epoch && session.stream !== null) this.grant(session, 1);
  }

  /** Whether a session with a stream serves the tool for this end user, run and toolset. */
  isServed(call: DispatchedCall, toolset: string | null): boolean {
    const queue = this.#queues.get(queueKey(call.projectId, call.tool));
    if (queue === undefined) return false;
    for (const session of queue.served) if (serves(session, call, toolset)) return true;
    return false;
  }

  /**
   * A call was queued: its tool's queue is not empty. Whether a session here has room for such a call. If it turns
   * out that none can take it and the call was queued `here`, the other nodes are told later.
   */
  wake(projectId: number, tool: string, where: "here" | "elsewhere"): boolean {
    const queue = this.#queues.get(queueKey(projectId, tool));
    if (queue === undefined) return false;
    queue.filled();
    if (queue.ready.size === 0) return false;
    if (where === "here") queue.kept = true;
    this.#want();
    return true;
  }

  /** Any queue may have got a call. */
  wakeAll(): void {
    for (const queue of this.#queues.values()) queue.filled();
    this.#want();
  }

  /**
   * Reads which of the served queues hold something, but for those that it found empty within `knownMs`: what another
   * node queued is found here if no hint came. And tells of calls that are left.
   */
  async poll(knownMs = 0): Promise<void> {
    const startedAt = performance.now();
    const byProject = new Map<number, ToolQueue[]>();
    for (const [key, queue] of this.#queues) {
      if (queue.ready.size === 0) this.#tellLeft(queue);
      else if (!queue.wasPolledEmpty(startedAt - knownMs)) push(byProject, queue.projectId, queue);
      if (queue.served.size === 0) this.#queues.delete(key);
    }
    for (const [projectId, queues] of byProject) {
      const fills = queues.map((queue) => queue.fills);
      const tools = queues.map(({ tool }) => tool);
      const filled = new Set(await queuedTools(this.#options.db, projectId, tools));
      queues.forEach((queue, index) => {
        if (filled.has(queue.tool)) {
          queue.filled();
          this.#tellLeft(queue);
        } else queue.polledEmpty(startedAt, fills[index] ?? 0);
      });
      if (filled.size > 0) this.#want();
    }
  }

  #tellLeft(queue: ToolQueue): void {
    if (queue.kept) this.#options.onLeft(queue);
    queue.kept = false;
  }

  #queue(key: string, projectId: number, tool: string): ToolQueue {
    let queue = this.#queues.get(key);
    if (queue === undefined) {
      queue = new ToolQueue(projectId, tool);
      this.#queues.set(key, queue);
    }
    return queue;
  }

  /** Takes one credit, and moves the session behind the others. */
  #take(session: Session): void {
    session.credit--;
    session.assigned++;
    for (const key of session.queueKeys) {
      const ready = this.#queues.get(key)?.ready;
      ready?.delete(session);
      if (session.hasRoom()) ready?.add(session);
    }
  }

  #refresh(session: Session): void {
    if (!session.hasRoom()) return;
    let wanted = false;
    for (const key of session.queueKeys) {
      const queue = this.#queues.get(key);
      if (queue === undefined) continue;
      queue.ready.add(session);
      if (queue.mayBeFilled) wanted = true;
    }
    if (wanted) this.#want();
  }

  /** Asks for claim rounds, once per turn of the event loop. */
  #want(): void {
    if (this.#roundsWanted || this.#stopped || this.#holds > 0) return;
    this.#roundsWanted = true;
    setImmediate(() => {
      this.#roundsWanted = false;
      if (this.#holds > 0) return;
      for (const [key, sessions] of this.#groups()) {
        if (!this.#rounds.has(key)) void this.#round(key, sessions);
      }
    });
  }

  /** Sessions with room and something to claim, by what they ask for. */
  #groups(): Map<string, Session[]> {
    const groups = new Map<string, Session[]>();
    const seen = new Set<Session>();
    const now = performance.now();
    for (const queue of this.#queues.values()) {
      if (queue.isEmpty(now, this.#options.hearsHints)) continue;
      for (const session of queue.ready) {
        if (seen.has(session)) continue;
        seen.add(session);
        push(groups, session.groupKey, session);
      }
    }
    return groups;
  }

  /** One claim statement for sessions that ask for the same. */
  async #round(key: string, sessions: readonly Session[]): Promise<void> {
    const first = sessions[0];
    if (first === undefined) return;
    this.#rounds.add(key);
    const startedAt = performance.now();
    const queues = first.queueKeys.flatMap((each) => this.#queues.get(each) ?? []);
    const fills = queues.map((queue) => queue.fills);
    const slots = this.#takeSlots(sessions);
    let outcome: ClaimOutcome | null = null;
    try {
      outcome = await claimQueued(this.#options.db, {
        projectId: first.scope.projectId,
        namespace: first.scope.namespace,
        runId: first.scope.runId,
        toolset: first.facts.toolset,
        tools: first.facts.tools,
        servedLast: this.#turns.servedLast(key),
        slots: slots.map(toSlot),
      });
    } catch (error) {
      this.#options.onError(error);
    }
    this.#rounds.delete(key);
    this.#settle(slots, outcome?.claimed ?? []);
    // A failed round is taken up again by the next poll.
    if (outcome === null) return;
    const { claimed, more } = outcome;
    this.#turns.served(key, claimed);
    if (claimed.length > 0) this.#roundSlots = slotsThatFit(claimed);
    const woken = queues.some((queue, index) => queue.fills !== fills[index]);
    // A read that was bound to a namespace, run or toolset says nothing of the whole queue.
    if (!more && !isBound(first)) {
      queues.forEach((queue, index) => queue.claimedOut(startedAt, fills[index] ?? 0));
    }
    // Where none of those that are left could be had, others are claiming them: the next poll takes them up.
    if (woken || (more && claimed.length > 0)) this.#want();
  }

  #takeSlots(sessions: readonly Session[]): Assignment[] {
    const slots: Assignment[] = [];
    const most = this.#roundSlots;
    for (let taken = true; taken && slots.length < most;) {
      taken = false;
      for (const session of sessions) {
        if (!session.hasRoom() || slots.length === most) continue;
        this.#take(session);
        slots.push({ session, claimId: randomId(), epoch: session.epoch });
        taken = true;
      }
    }
    return slots;
  }

  #settle(slots: readonly Assignment[], claimed: readonly ClaimedRow[]): void {
    const used = new Set<number>();
    for (const row of claimed) {
      const slot = slots[row.slot];
      if (slot === undefined) continue;
      used.add(row.slot);
      this.#options.onClaimed(slot, row);
      slot.session.settled();
    }
    slots.forEach((slot, index) => {
      if (!used.has(index)) this.#giveBack(slot);
    });
  }

  /** As {@link putBack}, but asks for no round: the one that just ended found nothing. */
  #giveBack({ session, epoch }: Assignment): void {
    session.settled();
    if (session.epoch !== epoch || session.stream === null) return;
    session.credit++;
    if (session.hasRoom()) for (const key of session.queueKeys) this.#queues.get(key)?.ready.add(session);
  }
}

function slotsThatFit(claimed: readonly ClaimedRow[]): number {
  let bytes = 0;
  for (const { record } of claimed) bytes += record.inputJson.length;
  return Math.max(1, Math.min(ROUND_SLOTS, Math.floor((ROUND_BYTES * claimed.length) / Math.max(1, bytes))));
}

function toSlot({ session, claimId, epoch }: Assignment): ClaimSlot {
  return { claimId, session: session.number, epoch, worker: session.facts.worker };
}

function queueKey(projectId: number, tool: string): string {
  return `${projectId}:${tool}`;
}

/** Whether a session is offered only some of its tools' calls. */
function isBound({ scope, facts }: Session): boolean {
  return scope.namespace !== null || scope.runId !== undefined || facts.toolset !== null;
}

function serves({ scope, facts }: Session, call: DispatchedCall, toolset: string | null): boolean {
  return reaches(scope, call) && (facts.toolset === null || facts.toolset === toolset);
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
}
