import type { WatchRunResponse } from "@trunkline/proto/run";
import type { Caller } from "../core/caller.js";
import { TrunklineError } from "../core/error.js";
import { noDatabase } from "../exchange/availability.js";
import type { RunStanding, RunWatcher } from "../exchange/run-watchers.js";
import type { CallRecord } from "../store/rows.js";
import { lookAtRuns, type ReadMark, type SeenRun } from "../store/run-watch.js";
import type { RunRef } from "../store/runs.js";
import { toCallMessage, toDuration, toRunMessage } from "./convert.js";
import type { ServiceDeps } from "./deps.js";
import { noRun } from "./open-call.js";
import { shuttingDown, type EndableStream } from "./open-streams.js";
import { SentCalls } from "./sent-calls.js";
import { StreamAge } from "./stream-age.js";
import { onClientGone } from "./stream-end.js";
import { legsFrom, toCursorToken, type Leg, type WatchCursor } from "./watch-cursor.js";

/** Changed calls that one look brings at the beginning. */
const LOOK_CALLS = 1_000;
/** Calls that are read ahead of the client; of large ones, one. */
const READ_CALLS = 32;

/** A place that the cursor comes to when so many of the told calls are through. */
interface Ahead {
  readonly mark: ReadMark;
  readonly at: number;
}

/**
 * One client's stream of what becomes of a run. Of changes only the calls' numbers are kept, and the calls are read
 * when the client takes the next: one that reads slowly misses states in between, never the last, and costs no memory.
 */
export class WatchStream implements RunWatcher, EndableStream {
  readonly #deps: ServiceDeps;
  readonly #caller: Caller;
  readonly #run: RunRef;
  readonly #signal: AbortSignal;
  readonly #from: WatchCursor | null;
  readonly #age: StreamAge;
  readonly #sent = new SentCalls();
  /** Calls that may have changed, in the order of being told, with the version that is new at least. */
  readonly #changed = new Map<number, number | null>();
  /** Told calls that were taken out of {@link #changed} and are not through, and those that are. */
  #inHand = 0;
  #through = 0;
  /** What the client has seen when it has what was yielded last. Null before the first look. */
  #cursor: WatchCursor | null;
  #next: Ahead | null = null;
  #afterNext: Ahead | null = null;
  #standing: RunStanding | null = null;
  #isFirst = true;
  #isBeatDue = false;
  #end: { readonly error: Error | null } | null = null;
  #wake: (() => void) | null = null;

  /** @param from what the client has seen; null: nothing */
  constructor(
    deps: ServiceDeps,
    caller: Caller,
    { projectId, id }: RunRef,
    from: WatchCursor | null,
    signal: AbortSignal,
  ) {
    this.#deps = deps;
    this.#caller = caller;
    this.#run = { projectId, id };
    this.#from = from;
    this.#cursor = from;
    this.#signal = signal;
    this.#age = new StreamAge(deps.maxStreamAgeMs, () => this.#endWith(grownOld()));
  }

  /**
   * The stream's responses.
   *
   * @throws TrunklineError NOT_FOUND; UNAVAILABLE when the node goes down or loses its database, or the stream is old;
   *   OVERLOADED where the caller has as many streams as are allowed; why its caller was expelled
   */
  async *responses(): AsyncGenerator<WatchRunResponse, void, undefined> {
    const { exchange, streams } = this.#deps;
    // Not by this generator's end alone: one that waits for a client to read is not ended when that goes away.
    const forget = onClientGone(this.#signal, () => this.#endWith(null));
    try {
      streams.add(this, this.#caller);
      await exchange.watchers.join(this.#run, this);
      this.#beat();
      for await (const response of this.#steps()) {
        if (!this.#isOver()) yield response;
        if (this.#isOver()) break;
      }
      if (this.#end?.error) throw this.#end.error;
    } finally {
      forget();
      this.#leave();
    }
  }

  callChanged(seq: number, version: number | null): void {
    if (version !== null && this.#sent.versionOf(seq) >= version) return;
    const told = this.#changed.get(seq);
    // What has to be looked at whatever its version stays so.
    if (told === undefined || (told !== null && (version === null || version > told)))
      this.#changed.set(seq, version);
    this.#poke();
  }

  runSeen(standing: RunStanding | null): void {
    if (standing === null) {
      this.#endWith(noRun(this.#run.id));
      return;
    }
    const ahead = { mark: standing.mark, at: this.#through + this.#inHand + this.#changed.size };
    if (this.#next === null) this.#next = ahead;
    else this.#afterNext = ahead;
    this.#standing = standing;
    this.#poke();
  }

  shutDown(): void {
    this.#endWith(shuttingDown());
  }

  databaseLost(): void {
    this.#endWith(noDatabase());
  }

  expelled(refusal: TrunklineError): void {
    this.#endWith(refusal);
  }

  /** What was there when the stream began, then what happens, until nothing more can. */
  async *#steps(): AsyncGenerator<WatchRunResponse, void, undefined> {
    yield* this.#sweep();
    while (!this.#isOver()) {
      yield* this.#runNews();
      const told = this.#take();
      this.#moveCursor();
      if (told.length > 0) {
        for await (const record of this.#read(told)) {
          this.#inHand--;
          this.#through++;
          this.#moveCursor();
          if (record !== null && this.#sent.note(record)) yield this.#callResponse(record);
        }
      } else if (this.#standing?.finished === true) {
        return;
      } else if (this.#isBeatDue) {
        yield this.#response({});
      } else {
        await this.#pause();
      }
    }
  }

  /** What has changed since the client's cursor, in the order of the calls' numbers. */
  async *#sweep(): AsyncGenerator<WatchRunResponse, void, undefined> {
    const [first, ...others] = legsFrom(this.#from);
    const page = await this.#look(first, first.after);
    const { mark } = page;
    this.#cursor ??= { ...this.#seenBy(mark), above: 0 };
    if (this.#standing?.ended !== true) this.#standing = { mark, ended: page.ended, finished: page.finished };
    yield* this.#runNews();
    // The first response comes at once, whatever there is to say.
    if (this.#isFirst) yield this.#response({});
    yield* this.#walk(first, page, mark);
    for (const leg of others) yield* this.#walk(leg, await this.#look(leg, leg.after), mark);
    this.#cursor = this.#seenBy(mark);
  }

  /** Tells the calls of a leg, from its first page on, and moves the cursor along. */
  async *#walk(leg: Leg, first: SeenRun, now: ReadMark): AsyncGenerator<WatchRunResponse, void, undefined> {
    const { since: before } = leg;
    const mark = leg.mark ?? now;
    for (let page = first; ;) {
      const { calls } = page;
      for (let start = 0; start < calls.length; start += READ_CALLS) {
        const seqs = calls.slice(start, start + READ_CALLS).map(({ seq }) => seq);
        let place = 0;
        for await (const record of this.#read(seqs)) {
          this.#cursor = { mark, above: seqs[place++] ?? 0, before, ended: this.#hasSeenEnd() };
          if (record !== null && this.#sent.note(record)) yield this.#callResponse(record);
        }
      }
      const last = calls.at(-1);
      if (last === undefined || calls.length < LOOK_CALLS) return;
      page = await this.#look(leg, last.seq);
    }
  }

  async #look({ since }: Leg, after: number): Promise<SeenRun> {
    const look = { ...this.#run, since, after };
    const [seen] = await lookAtRuns(this.#deps.exchange.db, [look], LOOK_CALLS);
    if (seen === null || seen === undefined) throw noRun(this.#run.id);
    return seen;
  }

  /** The next told calls, without those that have been sent meanwhile. */
  #take(): number[] {
    const seqs: number[] = [];
    for (const [seq, version] of this.#changed) {
      if (seqs.length === READ_CALLS) break;
      this.#changed.delete(seq);
      if (version === null || this.#sent.versionOf(seq) < version) seqs.push(seq);
      else this.#through++;
    }
    this.#inHand = seqs.length;
    return seqs;
  }

  /** Calls as they stand, in this order; null for those that are gone. Small ones together, and large ones alone. */
  async *#read(seqs: readonly number[]): AsyncGenerator<CallRecord | null, void, undefined> {
    const { watchers } = this.#deps.exchange;
    const refs = seqs.map((seq) => ({ projectId: this.#run.projectId, runId: this.#run.id, seq }));
    const records = await Promise.all(refs.map((ref) => watchers.small(ref)));
    for (const [index, ref] of refs.entries()) {
      yield records[index] ?? (await watchers.large(ref));
      records[index] = null;
    }
  }

  /** The run, where the client does not know that it is there, or that it has ended. */
  async *#runNews(): AsyncGenerator<WatchRunResponse, void, undefined> {
    const isNew = this.#isFirst && this.#from === null;
    const hasEnded = this.#standing?.ended === true && !this.#hasSeenEnd();
    if (!isNew && !hasEnded) return;
    const run = await this.#deps.exchange.watchers.run(this.#run);
    if (run === null) throw noRun(this.#run.id);
    if (this.#cursor !== null) this.#cursor = { ...this.#cursor, ended: run.state === "ended" };
    yield this.#response({ run: toRunMessage(run) });
  }

  #seenBy(mark: ReadMark): WatchCursor {
    return { mark, above: null, before: null, ended: this.#hasSeenEnd() };
  }

  #hasSeenEnd(): boolean {
    return this.#cursor?.ended === true;
  }

  #callResponse(record: CallRecord): WatchRunResponse {
    return this.#response({ call: toCallMessage(record, { payloads: true }) });
  }

  #response(what: Pick<WatchRunResponse, "call" | "run">): WatchRunResponse {
    const response: WatchRunResponse = {
      $typeName: "trunkline.v1.WatchRunResponse",
      cursor: this.#cursor === null ? "" : toCursorToken(this.#run.id, this.#cursor),
      ...what,
    };
    if (this.#isFirst) response.heartbeatInterval = toDuration(this.#deps.exchange.heartbeatIntervalMs);
    this.#isFirst = false;
    this.#isBeatDue = false;
    return response;
  }

  /** The cursor comes to the marks whose calls are all through. */
  #moveCursor(): void {
    while (this.#next !== null && this.#through >= this.#next.at) {
      this.#cursor = this.#seenBy(this.#next.mark);
      this.#next = this.#afterNext;
      this.#afterNext = null;
    }
  }

  /** A response in each interval: proxies cut a stream that says nothing, and clients know that it lives. */
  #beat(): void {
    if (this.#isOver()) return;
    this.#age.after(this.#deps.exchange.heartbeatIntervalMs, () => {
      this.#isBeatDue = true;
      this.#poke();
      this.#beat();
    });
  }

  async #pause(): Promise<void> {
    if (this.#isOver()) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }

  #poke(): void {
    this.#wake?.();
    this.#wake = null;
  }

  #isOver(): boolean {
    return this.#end !== null;
  }

  /** Ends the stream from here; the first end counts. */
  #endWith(error: Error | null): void {
    this.#end ??= { error };
    this.#leave();
    this.#poke();
  }

  #leave(): void {
    this.#age.stop();
    this.#deps.streams.remove(this);
    this.#deps.exchange.watchers.leave(this.#run.id, this);
    this.#changed.clear();
  }
}

function grownOld(): TrunklineError {
  return new TrunklineError("UNAVAILABLE", "this stream is old; go on from its last cursor", {
    retryAfterMs: 100,
  });
}
