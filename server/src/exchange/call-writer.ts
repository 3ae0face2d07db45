import { isEnded, type Call, type CallRef } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import type { CallEvent, Change, Decision, Verdict } from "../core/event.js";
import { sameFailure } from "../core/failure.js";
import { reaches, type Scope } from "../core/scope.js";
import { decide } from "../core/transition.js";
import { endCalls, saveCalls, type SaveItem, type SaveOutcome } from "../store/calls-save.js";
import { loadCalls, loadRecords } from "../store/calls-read.js";
import type { Database } from "../store/database.js";
import type { CallRecord } from "../store/rows.js";
import { Batcher } from "./batcher.js";
import { formatCallId } from "../core/name.js";
import { CallLock } from "./call-lock.js";

/** When things that an event set will happen, by the database's clock; null where nothing is set. */
export type SavedTimes = Extract<SaveOutcome, { readonly type: "saved" }>;

/** A change that was committed. */
export interface Committed {
  readonly before: Call;
  readonly change: Change;
  readonly times: SavedTimes;
}

/** What an event came to. */
export interface Applied {
  readonly verdict: Verdict;
  /** The call after it. */
  readonly call: Call;
  /** Set when the event changed the call. */
  readonly committed: Committed | null;
}

/** What the writer is given. */
export interface CallWriterOptions {
  readonly db: Database;
  /** The call as this node knows it, if it does; saves a read, and may be behind. */
  readonly recall: (ref: CallRef) => Call | undefined;
  /** Told of each change after its commit, before anybody else. */
  readonly onCommit: (committed: Committed) => void;
}

const ROUGH_ROW_BYTES = 300;
const MAX_TRIES = 100;

/**
 * Applies events to calls: decides by the state machine, saves the decision in a batch, guarded by version
 * and claim, and where another change came first, loads the call and decides again. Events of one call
 * are applied one after the other.
 */
export class CallWriter {
  readonly #options: CallWriterOptions;
  readonly #lock = new CallLock();
  readonly #loads: Batcher<CallRef, Call | "missing">;
  readonly #ends: Batcher<SaveItem, SaveOutcome>;
  readonly #saves: Batcher<SaveItem, SaveOutcome>;

  constructor(options: CallWriterOptions) {
    this.#options = options;
    const { db } = options;
    this.#loads = new Batcher({
      write: async (refs) => (await loadCalls(db, refs)).map((call) => call ?? "missing"),
      sizeOf: () => ROUGH_ROW_BYTES,
    });
    this.#ends = new Batcher({ write: (items) => endCalls(db, items), sizeOf: sizeOfChange });
    this.#saves = new Batcher({ write: (items) => saveCalls(db, items), sizeOf: sizeOfChange });
  }

  /** Whether an event of the call is being applied. */
  isBusy(ref: CallRef): boolean {
    return this.#lock.isHeld(formatCallId(ref));
  }

  /** The call as the database has it now, or undefined. */
  async load(ref: CallRef): Promise<Call | undefined> {
    const call = await this.#loads.push(ref);
    return call === "missing" ? undefined : call;
  }

  /**
   * Applies an event, and resolves after the commit of what it changed. An event that is still being prepared
   * has its place before those that are applied after it.
   *
   * @throws TrunklineError NOT_FOUND where the call is missing or not of this scope; UNAVAILABLE where the
   *   database cannot be reached.
   */
  async apply(ref: CallRef, given: CallEvent | Promise<CallEvent>, scope: Scope | null): Promise<Applied> {
    // It may fail before its turn has come.
    if (given instanceof Promise) given.catch(() => undefined);
    const key = formatCallId(ref);
    const turn = this.#lock.acquire(key);
    try {
      if (turn !== undefined) await turn;
      const event = given instanceof Promise ? await given : given;
      let call = this.#options.recall(ref) ?? (await this.load(ref));
      for (let tries = 0; tries < MAX_TRIES; tries++) {
        if (call === undefined || !isWithin(call, scope)) throw notFound(ref);
        const decision = decide(call, event, Math.random());
        if (decision.change === null) {
          // What this node remembers may be behind: a refusal is only given after a look at the row.
          const fresh: Call | undefined = decision.verdict.ok ? call : await this.load(ref);
          if (fresh === undefined || fresh.version === call.version) return settled(decision, call);
          call = fresh;
          continue;
        }
        const applied = await this.#save(call, decision.change);
        if (applied !== undefined) return applied;
        call = await this.load(ref);
      }
      throw new TrunklineError("UNAVAILABLE", `call ${key} changes too fast; try again`);
    } finally {
      this.#lock.release(key);
    }
  }

  /**
   * Applies an event that was found by reading the call: only while the call is still as it was read, since a
   * time that has passed for one attempt says nothing of the next. Undefined where nothing changed.
   *
   * @throws TrunklineError UNAVAILABLE where the database cannot be reached.
   */
  async applyAsRead(call: Call, event: CallEvent): Promise<Applied | undefined> {
    const key = formatCallId(call);
    const turn = this.#lock.acquire(key);
    try {
      if (turn !== undefined) await turn;
      const { change } = decide(call, event, Math.random());
      return change === null ? undefined : await this.#save(call, change);
    } finally {
      this.#lock.release(key);
    }
  }

  /** Saves a change; undefined when the row is not any more what the decision was made from. */
  async #save(before: Call, change: Change): Promise<Applied | undefined> {
    const batcher = isEnded(change.next) ? this.#ends : this.#saves;
    const outcome = await batcher.push({ before, change });
    switch (outcome.type) {
      case "saved":
        return this.#committed({ before, change, times: outcome });
      case "run_ended": {
        const canceled = decide(before, { type: "cancel", cause: "run_ended" }, 0);
        return canceled.change === null ? undefined : this.#save(before, canceled.change);
      }
      case "stale":
        return this.#foundSaved(before, change);
    }
  }

  /** A batch that was sent again finds its own first delivery: the row is what it would have made. */
  async #foundSaved(before: Call, change: Change): Promise<Applied | undefined> {
    const [record] = await loadRecords(this.#options.db, [before], { payloads: true });
    if (record === null || record === undefined || !isSameChange(record, change)) return undefined;
    const { endedAt, readyAt, attemptTimeoutAt, deferTimeoutAt } = record;
    return this.#committed({
      before,
      change,
      times: { type: "saved", endedAt, readyAt, attemptTimeoutAt, deferTimeoutAt },
    });
  }

  #committed(committed: Committed): Applied {
    this.#options.onCommit(committed);
    return { verdict: { ok: true, repeat: false }, call: committed.change.next, committed };
  }
}

/** The error for a call that is missing, or somebody else's: the two look the same (I7). */
export function notFound(ref: Pick<CallRef, "runId" | "seq">): TrunklineError {
  return new TrunklineError("NOT_FOUND", `there is no call ${formatCallId(ref)}`);
}

/** Whether a scope reaches the call. */
export function isWithin(call: Call, scope: Scope | null): boolean {
  return scope === null || reaches(scope, call);
}

function settled(decision: Decision, call: Call): Applied {
  return { verdict: decision.verdict, call, committed: null };
}

/** Whether a row is what a change would have made of it, and not what somebody else's would. */
function isSameChange({ call: now, attempts }: CallRecord, { next, failedAttempt }: Change): boolean {
  if (failedAttempt !== null) {
    const last = attempts.at(-1);
    if (last?.number !== failedAttempt.number || !sameFailure(last.failure, failedAttempt.failure))
      return false;
  }
  return (
    now.version === next.version &&
    now.state === next.state &&
    now.attempt === next.attempt &&
    now.spent === next.spent &&
    now.failures === next.failures &&
    now.claim?.id === next.claim?.id &&
    now.claim?.standing === next.claim?.standing &&
    now.claim?.accepted === next.claim?.accepted &&
    now.tokens.length === next.tokens.length &&
    now.tokens.every(({ hash }, index) => hash === next.tokens[index]?.hash) &&
    isSameEnd(now, next)
  );
}

function isSameEnd(now: Call, next: Call): boolean {
  if (!isEnded(now) || !isEnded(next)) return true;
  if (now.state === "succeeded") return next.state === "succeeded" && now.resultJson === next.resultJson;
  return next.state !== "succeeded" && sameFailure(now.failure, next.failure);
}

function sizeOfChange({ change }: SaveItem): number {
  const { next, failedAttempt } = change;
  const result = next.state === "succeeded" ? next.resultJson.length : 0;
  const failure =
    next.state === "failed" ? (next.failure.dataJson?.length ?? 0) + next.failure.message.length : 0;
  return ROUGH_ROW_BYTES + result + failure + (failedAttempt?.failure.dataJson?.length ?? 0);
}
