import type { Bounds, Event, EventOf, Said, Seen, Written } from "./events.mjs";
import { sumOf } from "./workload/tools.mjs";

const DATABASE_MS = 1_700_000_000_000;
const TICK_US = 1_000;
const BOUNDS: Bounds = { mode: "retry", maxAttempts: 3, attemptMs: null, totalMs: null, deferMs: null };

/** The run of all calls of a {@link SampleHistory}. */
export const RUN = "run";

/** How a call of a {@link SampleHistory} differs from a plain one. */
export interface SampleCall {
  readonly bounds?: Partial<Bounds>;
  readonly turn?: number;
  readonly client?: boolean;
}

/** A history in the making, of events one millisecond apart. */
export class SampleHistory {
  readonly events: Event[] = [];
  #seq = 0;

  constructor() {
    this.add("driver#1", { type: "clock", databaseMs: DATABASE_MS });
    this.add("worker-1#1", { type: "life", concurrency: 2 });
    this.add("harness-1#1", { type: "run-creating", key: "its key", ttlMs: null });
    this.add("harness-1#1", { type: "run-created", run: RUN, key: "its key" });
  }

  /** The time of the last event, by the database's clock. */
  get nowMs(): number {
    return DATABASE_MS + ((this.events.length - 1) * TICK_US) / 1_000;
  }

  add<T extends Written["type"]>(process: string, written: Extract<Written, { type: T }>): EventOf<T> {
    const t = this.events.length * TICK_US;
    // One of the union's members, with what every event has.
    const event = { ...written, t, p: process, at: `${process}:${this.events.length + 1}` } as EventOf<T>;
    this.events.push(event);
    return event;
  }

  /** Opens the next call; its row has yet to be added by {@link end}. */
  open(options: SampleCall = {}): EventOf<"opening"> {
    const key = `key-${++this.#seq}`;
    const { turn = null, client = false } = options;
    const opening = this.add("harness-1#1", {
      ...{ type: "opening", run: RUN, key, tool: "tool", client, turn },
      bounds: { ...BOUNDS, ...options.bounds },
      inputJson: JSON.stringify({ n: key }),
    });
    this.add("harness-1#1", { type: "opened", run: RUN, key, id: `${RUN}/${this.#seq}` });
    return opening;
  }

  start(seq: number, attempt = 1, process = "worker-1#1"): EventOf<"start"> {
    const id = `${RUN}/${seq}`;
    const { inputJson, tool } = this.of("opening", seq);
    return this.add(process, { type: "start", id, call: id, attempt, tool, inputJson });
  }

  finish(seq: number, said: Said | null, attempt = 1, process = "worker-1#1"): EventOf<"end"> {
    return this.add(process, { type: "end", id: `${RUN}/${seq}`, attempt, said });
  }

  /** What a handler returns for a call. */
  result(seq: number, by = "attempt 1"): { readonly resultJson: string } {
    return { resultJson: JSON.stringify({ sum: sumOf(this.of("opening", seq).inputJson), by }) };
  }

  /** Ends a call in the database, and tells its harness. */
  end(seq: number, how: Partial<EventOf<"row">> = {}): EventOf<"row"> {
    const { key, tool, turn, bounds, inputJson, client } = this.of("opening", seq);
    const seen: Seen = {
      ...{ id: `${RUN}/${seq}`, state: "succeeded", attempt: 1, failure: null, endedAt: this.nowMs },
      ...{ resultJson: how.failure ? null : this.result(seq).resultJson },
    };
    const row = this.add("driver#1", {
      ...{ type: "row", ...seen, run: RUN, key, tool, turn, mode: bounds.mode, inputJson },
      ...{ executor: client ? "client" : "worker", spent: how.attempt ?? 1, maxAttempts: bounds.maxAttempts },
      ...{ openedAt: this.nowMs, claimedAt: this.nowMs, attempts: [] },
      ...how,
    });
    const { id, state, attempt, resultJson, failure, endedAt } = row;
    this.add("harness-1#1", { type: "outcome", id, state, attempt, resultJson, failure, endedAt });
    return row;
  }

  /** Ends the run, and adds its row. */
  close(): Event[] {
    this.add("harness-1#1", { type: "run-ending", run: RUN });
    this.add("harness-1#1", { type: "run-ended", run: RUN });
    this.add("driver#1", { type: "run-row", run: RUN, key: "its key", state: "ended" });
    return this.events;
  }

  /** The one event of this type, of this call if one is named. */
  of<T extends Written["type"]>(type: T, seq?: number): EventOf<T> {
    const found = this.events.find((event) => {
      if (event.type !== type) return false;
      if (seq === undefined) return true;
      return (
        ("id" in event && event.id === `${RUN}/${seq}`) || ("key" in event && event.key === `key-${seq}`)
      );
    });
    if (found === undefined) throw new Error(`the sample has no ${type} of call ${seq ?? ""}`);
    // It was chosen by its type.
    return found as EventOf<T>;
  }

  /** Takes out what is written of a type, of this call if one is named. */
  remove(type: Written["type"], seq?: number): void {
    const gone: unknown = this.of(type, seq);
    this.events.splice(0, this.events.length, ...this.events.filter((event) => event !== gone));
  }
}

/** A call that a handler answers at once. */
export function answered(history: SampleHistory, options: SampleCall = {}): number {
  const { key } = history.open(options);
  const seq = Number(key.slice("key-".length));
  history.start(seq);
  history.finish(seq, history.result(seq));
  history.end(seq);
  return seq;
}

/** A failure that the server decides. */
export const failure = (kind: string, outcomeUnknown: boolean): EventOf<"row">["failure"] => ({
  ...{ kind, message: `${kind} it was`, dataJson: null, retryable: kind === "worker_lost", outcomeUnknown },
});
