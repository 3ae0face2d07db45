import { isEnded, type Call, type CallRef } from "../core/call.js";
import type { Scope } from "../core/scope.js";
import type { Database } from "../store/database.js";
import type { CallRecord } from "../store/rows.js";
import { formatCallId } from "../core/name.js";
import { isWithin } from "./call-writer.js";
import type { Outcome } from "./delivery.js";
import { lookAtCalls } from "./outcomes.js";

/** Somebody who waits for calls to end; told at most once per call and registration. */
export interface Waiter {
  outcome(outcome: Outcome): void;
}

/** Somebody who waits for a turn: told that one of its calls ended, or was opened. */
export interface TurnWaiter {
  turnMoved(): void;
}

interface Waiting {
  readonly waiter: Waiter;
  /** What it may see: it registers before anybody has looked at the call. */
  readonly scope: Scope;
}

interface Waited {
  readonly call: Pick<CallRef, "runId" | "seq">;
  /** Seldom more than one, which a list holds in a quarter of a map's space. */
  waiters: readonly Waiting[];
}

/**
 * Who waits for which call, in memory alone: a waiting caller holds no connection and no timer (I12). An
 * end on this node is told at once; one on another node is found by {@link Waiters.catchUp}.
 */
export class Waiters {
  readonly #db: Database;
  readonly #calls = new Map<string, Waited>();
  readonly #turns = new Map<string, Set<TurnWaiter>>();

  constructor(db: Database) {
    this.#db = db;
  }

  /** Calls and turns that somebody waits for. */
  get size(): number {
    return this.#calls.size + this.#turns.size;
  }

  /** Registers for a call; one that has ended already, or is out of the scope, is never told of. */
  add(ref: CallRef, waiter: Waiter, scope: Scope): void {
    const call = { runId: ref.runId, seq: ref.seq };
    const key = formatCallId(ref);
    const waited = this.#calls.get(key);
    if (waited === undefined) this.#calls.set(key, { call, waiters: [{ waiter, scope }] });
    else waited.waiters = [...without(waited.waiters, waiter), { waiter, scope }];
  }

  /** Registers first, then reads: what has ended is told at once. The refs that there are, in scope. */
  async watch(refs: readonly CallRef[], waiter: Waiter, scope: Scope): Promise<Set<CallRef>> {
    for (const ref of refs) this.add(ref, waiter, scope);
    const found = new Set<CallRef>();
    for await (const { ref, call, outcome } of lookAtCalls(this.#db, refs)) {
      if (!isWithin(call, scope)) continue;
      found.add(ref);
      if (outcome === null || !this.#isWaiting(ref, waiter)) continue;
      this.remove(ref, waiter);
      waiter.outcome(outcome);
    }
    for (const ref of refs) if (!found.has(ref)) this.remove(ref, waiter);
    return found;
  }

  #isWaiting(ref: CallRef, waiter: Waiter): boolean {
    return this.#calls.get(formatCallId(ref))?.waiters.some((each) => each.waiter === waiter) === true;
  }

  remove(ref: CallRef, waiter: Waiter): void {
    const key = formatCallId(ref);
    const waited = this.#calls.get(key);
    if (waited === undefined) return;
    waited.waiters = without(waited.waiters, waiter);
    if (waited.waiters.length === 0) this.#calls.delete(key);
  }

  /** Registers for a turn's moves; call the result to leave. */
  addTurn(runId: string, turn: number, waiter: TurnWaiter): () => void {
    const key = turnKey(runId, turn);
    const waiters = this.#turns.get(key) ?? new Set();
    waiters.add(waiter);
    this.#turns.set(key, waiters);
    return () => {
      waiters.delete(waiter);
      if (waiters.size === 0 && this.#turns.get(key) === waiters) this.#turns.delete(key);
    };
  }

  /** A call was opened or has ended, and this is known to be committed. */
  moved(call: Call, outcome: Outcome | null): void {
    if (call.turn !== null && this.#turns.size > 0) this.#pokeTurn(call.runId, call.turn);
    if (outcome === null) return;
    const key = formatCallId(call);
    const waited = this.#calls.get(key);
    if (waited === undefined) return;
    this.#calls.delete(key);
    for (const { waiter, scope } of waited.waiters) if (isWithin(call, scope)) waiter.outcome(outcome);
  }

  #pokeTurn(runId: string, turn: number): void {
    const waiters = this.#turns.get(turnKey(runId, turn));
    if (waiters !== undefined) for (const waiter of [...waiters]) waiter.turnMoved();
  }

  /**
   * Reads what ended without this node's doing, of these calls or of all that somebody waits for; turns are
   * simply looked at again by who waits.
   */
  async lookAt(ids: readonly string[] | null): Promise<void> {
    const waited = ids === null ? [...this.#calls.values()] : ids.flatMap((id) => this.#calls.get(id) ?? []);
    for await (const { call, outcome } of lookAtCalls(this.#db, waited.flatMap(refsOf))) {
      if (outcome !== null) this.moved(call, outcome);
    }
    const runs = ids === null ? null : new Set(ids.map((id) => id.slice(0, id.indexOf("/"))));
    for (const [key, waiters] of this.#turns) {
      if (runs !== null && !runs.has(key.slice(0, key.indexOf("#")))) continue;
      for (const waiter of [...waiters]) waiter.turnMoved();
    }
  }
}

/** The outcome of a call that has ended. */
export function outcomeOf(record: CallRecord): Outcome | undefined {
  return isEnded(record.call) ? { call: record.call, endedAt: record.endedAt } : undefined;
}

/** The call as each of the projects names it whose callers wait for it: anybody may wait for any id. */
function refsOf({ call, waiters }: Waited): CallRef[] {
  const projects = new Set(waiters.map(({ scope }) => scope.projectId));
  return [...projects].map((projectId) => ({ projectId, ...call }));
}

function without(waiters: readonly Waiting[], waiter: Waiter): Waiting[] {
  return waiters.filter((each) => each.waiter !== waiter);
}

function turnKey(runId: string, turn: number): string {
  return `${runId}#${turn}`;
}
