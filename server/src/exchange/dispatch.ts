import {
  claimQueued,
  whichAreFilled,
  type ClaimedRow,
  type ClaimOutcome,
  type ClaimSlot,
} from "../store/calls-claim.js";
import type { Database } from "../store/database.js";
import { randomId } from "./random-id.js";
import type { Session } from "./session.js";
import type { ToolQueue } from "./tool-queue.js";
import { ToolQueues, type QueuedCall } from "./tool-queues.js";
import { Turns } from "./turns.js";

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
  readonly #queues = new ToolQueues();
  /** Groups of sessions for which a claim statement is under way. */
  readonly #rounds = new Set<string>();
  readonly #turns = new Turns();
  /** Queues of which sessions with room are to claim, in the next turn of the event loop. */
  readonly #wanted = new Set<ToolQueue>();
  /** Queues of which is to be read whether they hold something. */
  readonly #doubted = new Set<ToolQueue>();
  #looking = false;
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
    session.queues = session.facts.tools.map((tool) => this.#queues.join(session, tool));
    for (const queue of session.queues) queue.served.add(session);
    this.#refresh(session);
  }

  /** Chooses it no more: its stream has gone, or it drains. */
  remove(session: Session): void {
    this.#turns.remove(session);
    for (const queue of session.queues) {
      queue.served.delete(session);
      queue.ready.delete(session);
    }
  }

  /** Chooses nobody any more: the node shuts down. */
  stop(): void {
    this.#stopped = true;
    for (const queue of this.#queues) this.#tellLeft(queue);
    this.#queues.clear();
    this.#wanted.clear();
    this.#doubted.clear();
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
    for (const queue of session.queues) queue.ready.delete(session);
  }

  /** Chooses a session again. */
  resume(session: Session): void {
    session.stalled = false;
    this.#refresh(session);
  }

  /** Takes a session with room for a new call, if nothing is known to wait in the session's queue for room. */
  assign(call: QueuedCall, toolset: string | null): Assignment | null {
    if (this.#holds > 0) return null;
    for (const queue of this.#queues.of(call)) {
      if (!queue.takes(toolset)) continue;
      const [session] = queue.ready;
      if (session === undefined) continue;
      if (queue.isCovered || this.#isEmpty(queue)) return this.#take(session);
      this.#want(queue);
    }
    return null;
  }

  /** The row of a new call is written, and its claim was offered. */
  offered({ session }: Assignment): void {
    session.handedOut++;
    session.settled();
  }

  /** Gives a credit back: no row was written for it. */
  putBack({ session, epoch }: Assignment): void {
    session.settled();
    if (session.epoch === epoch && session.stream !== null) this.grant(session, 1);
  }

  /** The row is written without the claim: the session has said hello again, here or to another node. */
  outdated({ session, epoch }: Assignment): void {
    session.settled();
    if (session.epoch !== epoch) return;
    session.reachable = false;
    this.remove(session);
  }

  /** Whether a session with a stream serves the tool for this end user, run and toolset. */
  isServed(call: QueuedCall, toolset: string | null): boolean {
    return this.#queues.of(call).some((queue) => queue.served.size > 0 && queue.takes(toolset));
  }

  /** Whether sessions here take such calls so fast that a new one had better wait for their room than be queued. */
  hasRoomSoon(call: QueuedCall, toolset: string | null): boolean {
    return this.#queues.of(call).some((queue) => queue.takes(toolset) && queue.hasRoomSoon());
  }

  /**
   * A call was queued here, of a run with this toolset; undefined: it is not known. Whether a session here has room for
   * it, for certain; if it turns out that none takes it, the other nodes are told later.
   */
  queued(call: QueuedCall, toolset: string | null | undefined): boolean {
    let hasRoom = false;
    for (const queue of this.#queues.of(call)) {
      if (toolset !== undefined && !queue.takes(toolset)) continue;
      queue.got();
      if (queue.ready.size === 0) continue;
      this.#want(queue);
      if (toolset === undefined && queue.toolset !== null) continue;
      queue.kept = true;
      hasRoom = true;
    }
    return hasRoom;
  }

  /** Another node has queued a call of the tool. */
  queuedElsewhere(projectId: number, tool: string): void {
    this.#doubt(this.#queues.ofTool(projectId, tool));
  }

  /** Any queue may have got a call. */
  wakeAll(): void {
    this.#doubt(this.#queues);
  }

  /**
   * Reads which of the served queues hold something, but for those that it found empty within `knownMs`: what another
   * node queued is found here if no hint came. And tells of calls that are left.
   */
  async poll(knownMs = 0): Promise<void> {
    const since = performance.now() - knownMs;
    const unsure: ToolQueue[] = [];
    for (const queue of this.#queues) {
      if (queue.ready.size === 0) this.#tellLeft(queue);
      else if (!queue.wasPolledEmpty(since)) unsure.push(queue);
    }
    this.#queues.dropUnserved();
    for (const queue of await this.#read(unsure)) this.#tellLeft(queue);
  }

  /** Queues may have got calls. Where that would take very many claims, one read for all tells which have. */
  #doubt(queues: Iterable<ToolQueue>): void {
    for (const queue of queues) {
      queue.filled();
      if (queue.ready.size === 0) continue;
      if (queue.isScattered) this.#doubted.add(queue);
      else this.#want(queue);
    }
    if (!this.#looking) void this.#look();
  }

  /** Reads all that is in doubt, until nothing is. */
  async #look(): Promise<void> {
    this.#looking = true;
    while (this.#doubted.size > 0) {
      const doubted = [...this.#doubted];
      this.#doubted.clear();
      // What could not be read is taken up again by the next poll.
      await this.#read(doubted).catch(this.#options.onError);
    }
    this.#looking = false;
  }

  /** Reads which of these queues hold something, and has them claimed from. */
  async #read(queues: readonly ToolQueue[]): Promise<ToolQueue[]> {
    const byProject = new Map<number, ToolQueue[]>();
    for (const queue of queues) push(byProject, queue.projectId, queue);
    const filled: ToolQueue[] = [];
    for (const [projectId, asked] of byProject) {
      const marked = asked.map((queue) => ({ queue, mark: queue.mark() }));
      const isFilled = await whichAreFilled(this.#options.db, projectId, asked);
      marked.forEach(({ queue, mark }, index) => {
        if (isFilled[index] === true) {
          queue.filled();
          filled.push(queue);
          this.#want(queue);
        } else queue.polledEmpty(mark);
      });
    }
    return filled;
  }

  #mayHold(queue: ToolQueue): number {
    return queue.mayHold(performance.now(), this.#options.hearsHints);
  }

  #isEmpty(queue: ToolQueue): boolean {
    return this.#mayHold(queue) === 0;
  }

  #tellLeft(queue: ToolQueue): void {
    if (queue.kept) this.#options.onLeft(queue);
    queue.kept = false;
  }

  /** Takes one credit, and moves the session behind the others. */
  #take(session: Session): Assignment {
    session.credit--;
    session.assigned++;
    for (const { ready } of session.queues) {
      ready.delete(session);
      if (session.hasRoom()) ready.add(session);
    }
    return { session, claimId: randomId(), epoch: session.epoch };
  }

  #refresh(session: Session): void {
    if (!session.hasRoom()) return;
    for (const queue of session.queues) {
      queue.ready.add(session);
      if (queue.mayBeFilled) this.#want(queue);
    }
  }

  /** Asks for claim rounds of a queue, once per turn of the event loop. */
  #want(queue: ToolQueue): void {
    if (this.#stopped || this.#holds > 0) return;
    if (this.#wanted.size === 0) setImmediate(() => this.#startRounds());
    this.#wanted.add(queue);
  }

  #startRounds(): void {
    const groups = this.#groups();
    this.#wanted.clear();
    if (this.#holds > 0) return;
    for (const [key, sessions] of groups) if (!this.#rounds.has(key)) void this.#round(key, sessions);
  }

  /** Sessions with room and something to claim, by what they ask for. */
  #groups(): Map<string, Session[]> {
    const groups = new Map<string, Session[]>();
    const seen = new Set<Session>();
    for (const queue of this.#wanted) {
      if (this.#isEmpty(queue)) continue;
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
    const { queues } = first;
    const marked = queues.map((queue) => ({ queue, mark: queue.mark() }));
    const most = queues.reduce((calls, queue) => calls + this.#mayHold(queue), 0);
    // A slot that stays empty shows that nothing is left; what more room there is stays for new calls.
    const slots = this.#takeSlots(sessions, most + 1);
    if (slots.length >= most) for (const queue of queues) queue.cover();
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
    for (const queue of queues) queue.uncover();
    this.#settle(slots, outcome?.claimed ?? []);
    // A failed round is taken up again by the next poll.
    if (outcome === null) return;
    const { claimed, more } = outcome;
    this.#turns.served(key, claimed);
    if (claimed.length > 0) this.#roundSlots = slotsThatFit(claimed);
    const woken = marked.some(({ queue, mark }) => queue.isFilledSince(mark));
    if (!more) for (const { queue, mark } of marked) queue.claimedOut(mark);
    // Where none of those that are left could be had, others are claiming them: the next poll takes them up.
    if (woken || (more && claimed.length > 0)) for (const queue of queues) this.#want(queue);
  }

  #takeSlots(sessions: readonly Session[], calls: number): Assignment[] {
    const slots: Assignment[] = [];
    const most = Math.min(calls, this.#roundSlots);
    for (let taken = true; taken && slots.length < most;) {
      taken = false;
      for (const session of sessions) {
        if (!session.hasRoom() || slots.length === most) continue;
        slots.push(this.#take(session));
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
      slot.session.handedOut++;
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
    if (session.hasRoom()) for (const { ready } of session.queues) ready.add(session);
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

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
}
