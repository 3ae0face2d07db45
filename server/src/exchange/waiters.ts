import { isEnded, type Call, type CallRef } from "../core/call.js";
import type { Scope } from "../core/scope.js";
import { loadRecords } from "../store/calls-read.js";
import type { Database } from "../store/database.js";
import type { CallRecord } from "../store/rows.js";
import { callKey } from "./call-key.js";
import { isWithin } from "./call-writer.js";
import type { Outcome } from "./delivery.js";

/** Somebody who waits for calls to end; told at most once per call and registration. */
export interface Waiter {
  outcome(outcome: Outcome): void;
}

/** Somebody who waits for a turn: told that one of its calls ended, or was opened. */
export interface TurnWaiter {
  turnMoved(): void;
}

interface Waited {
  readonly ref: CallRef;
  readonly waiters: Set<Waiter>;
}

const READ_CHUNK = 1_000;

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

  /** Registers for a call that is known to be open: one that was just stored by this node. */
  add(ref: CallRef, waiter: Waiter): void {
    const key = callKey(ref);
    const waited = this.#calls.get(key);
    if (waited === undefined) this.#calls.set(key, { ref, waiters: new Set([waiter]) });
    else waited.waiters.add(waiter);
  }

  /** Registers first, then reads: what has ended is told at once. The refs that there are, in scope. */
  async watch(refs: readonly CallRef[], waiter: Waiter, scope: Scope): Promise<CallRef[]> {
    for (const ref of refs) this.add(ref, waiter);
    const found: CallRef[] = [];
    for (let start = 0; start < refs.length; start += READ_CHUNK) {
      const chunk = refs.slice(start, start + READ_CHUNK);
      const records = await loadRecords(this.#db, chunk, { payloads: true });
      chunk.forEach((ref, index) => {
        const record = records[index];
        if (record === null || record === undefined || !isWithin(record.call, scope))
          this.remove(ref, waiter);
        else {
          found.push(ref);
          const outcome = outcomeOf(record);
          if (outcome !== undefined && this.#calls.get(callKey(ref))?.waiters.has(waiter) === true) {
            this.remove(ref, waiter);
            waiter.outcome(outcome);
          }
        }
      });
    }
    return found;
  }

  remove(ref: CallRef, waiter: Waiter): void {
    const key = callKey(ref);
    const waited = this.#calls.get(key);
    if (waited === undefined) return;
    waited.waiters.delete(waiter);
    if (waited.waiters.size === 0) this.#calls.delete(key);
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
    const key = callKey(call);
    const waited = this.#calls.get(key);
    if (waited === undefined) return;
    this.#calls.delete(key);
    for (const waiter of waited.waiters) waiter.outcome(outcome);
  }

  #pokeTurn(runId: string, turn: number): void {
    const waiters = this.#turns.get(turnKey(runId, turn));
    if (waiters !== undefined) for (const waiter of [...waiters]) waiter.turnMoved();
  }

  /** Reads what ended without this node's doing; turns are simply looked at again by who waits. */
  async catchUp(): Promise<void> {
    const refs = [...this.#calls.values()].map(({ ref }) => ref);
    for (let start = 0; start < refs.length; start += READ_CHUNK) {
      const records = await loadRecords(this.#db, refs.slice(start, start + READ_CHUNK), { payloads: true });
      for (const record of records) {
        const outcome = record === null ? undefined : outcomeOf(record);
        if (outcome !== undefined) this.moved(outcome.call, outcome);
      }
    }
    for (const waiters of this.#turns.values()) for (const waiter of [...waiters]) waiter.turnMoved();
  }
}

/** The outcome of a call that has ended. */
export function outcomeOf(record: CallRecord): Outcome | undefined {
  return isEnded(record.call) ? { call: record.call, endedAt: record.endedAt } : undefined;
}

function turnKey(runId: string, turn: number): string {
  return `${runId}#${turn}`;
}
