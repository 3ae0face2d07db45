import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { OpenCall as WireOpenCall, WaitCallsResponse } from "@trunkline/proto/call";
import { pause } from "./abort.js";
import { checkSignal, onlyFields } from "./argument.js";
import { outcomeFromWire, stateFromWire, type CallState, type Outcome } from "./call.js";
import type { CallHandle } from "./call-handle.js";
import { parseDuration, type Duration } from "./duration.js";
import { TrunklineError } from "./errors.js";
import { LIMITS } from "./limits.js";
import type { OpenOptions } from "./run.js";
import { Backoff } from "./reconnect.js";
import { openBatch, type BatchCall } from "./turn-batch.js";
import type { RequestOptions, Unary } from "./unary.js";

/** How long the server holds one request of a wait. */
const WAIT_MS = 30_000;

/** How many open calls a message names. */
const NAMED_CALLS = 10;

/** A call of a turn that has not ended. */
export interface OpenCall {
  readonly callId: string;
  readonly key: string;
  readonly tool: string;
  readonly state: CallState;
}

/** Thrown by `turn.settled` when its timeout runs out. The calls go on; waiting again is fine. */
export class TurnTimeoutError extends TrunklineError {
  override readonly name = "TurnTimeoutError";
  /** The calls that have not ended, in the order of their numbers; at most the first 1,000. */
  readonly open: readonly OpenCall[];
  /** How the others ended, in the order of their numbers. */
  readonly outcomes: readonly Outcome[];

  constructor(message: string, open: readonly OpenCall[], outcomes: readonly Outcome[]) {
    super("TIMEOUT", message);
    this.open = open;
    this.outcomes = outcomes;
  }
}

/** How to wait for a turn. */
export interface SettledOptions {
  /** Default: as long as it takes. */
  readonly timeout?: Duration;
  /** Aborting it ends the wait, not the calls. */
  readonly signal?: AbortSignal;
}

/** A turn as it stands. */
export interface TurnStatus {
  /** Whether none of its calls is open, nor was being opened by this handle meanwhile. */
  readonly settled: boolean;
  /** How those that have ended did, in the order of their numbers. */
  readonly outcomes: readonly Outcome[];
  /** Those that have not, in the order of their numbers; at most the first 1,000. */
  readonly open: readonly OpenCall[];
}

/** Opens a call of this turn. */
export type OpenInTurn = (tool: string, input: unknown, options: OpenOptions) => Promise<CallHandle>;

/** The calls of one model decision. Any process can make a handle for it and wait. */
export class Turn {
  readonly runId: string;
  readonly number: number;
  readonly #unary: Unary;
  readonly #open: OpenInTurn;
  readonly #opening = new Set<Promise<unknown>>();
  /** How many opens were begun here so far. */
  #begun = 0;

  /** Use `run.turn`. */
  constructor(runId: string, number: number, unary: Unary, open: OpenInTurn) {
    this.runId = runId;
    this.number = number;
    this.#unary = unary;
    this.#open = open;
  }

  /** Opens a call in this turn, as `run.open` does. */
  open(tool: string, input: unknown, options: Omit<OpenOptions, "turn"> = {}): Promise<CallHandle> {
    const opening = this.#open(tool, input, { ...options, turn: this.number });
    this.#opening.add(opening);
    this.#begun++;
    const done = (): void => void this.#opening.delete(opening);
    opening.then(done, done);
    return opening;
  }

  /**
   * Opens all calls of a model decision at once: they go out together, are numbered in their order, and are refused
   * one by one. Give each the model's own id of the tool call as its key: doing this again, after a crash and from
   * another process, then opens no second call, and gives the same handles.
   *
   * @throws BatchError when calls were refused (the others are open): what `open` throws of each, KEY_REUSED for a key
   *   with other content
   * @throws TrunklineError INVALID_FIELD for what are no calls; then none is opened
   */
  openAll(calls: readonly BatchCall[]): Promise<CallHandle[]> {
    return openBatch(calls, ({ tool, input, ...options }) => this.open(tool, input, options));
  }

  /**
   * The turn as it stands, without waiting: what has ended already, and what has not.
   *
   * @throws TrunklineError NOT_FOUND for a turn without calls
   */
  status(): Promise<TurnStatus> {
    return this.#look(0, {});
  }

  /**
   * How the turn's calls ended, one outcome each, in the order of their numbers, once none of them is open:
   * those opened here (also when their opens are still under way), in other processes, and during the wait.
   *
   * @throws TurnTimeoutError when the timeout runs out, with the calls that are open
   * @throws TrunklineError NOT_FOUND for a turn without calls
   */
  async settled(options: SettledOptions = {}): Promise<Outcome[]> {
    onlyFields(options, { timeout: true, signal: true }, "options");
    const { timeout, signal } = options;
    checkSignal(signal);
    const timeoutMs = timeout === undefined ? Infinity : parseDuration(timeout, "timeout");
    const endsAt = performance.now() + timeoutMs;
    const backoff = new Backoff();
    for (;;) {
      await this.#opened(endsAt, options);
      const leftMs = Math.max(1, Math.ceil(endsAt - performance.now()));
      try {
        const look = await this.#look(Math.min(leftMs, WAIT_MS), { retryForMs: leftMs, signal });
        backoff.reset();
        if (look.settled) return [...look.outcomes];
        if (performance.now() >= endsAt) throw this.#timedOut(look, timeout);
      } catch (error) {
        const cut = error instanceof TrunklineError && error.reason === "UNAVAILABLE";
        const pauseMs = backoff.next();
        if (!cut || performance.now() + pauseMs >= endsAt) throw error;
        await pause(pauseMs, signal);
      }
    }
  }

  /** Waits for the opens that are under way here, which takes as long as the server is away. */
  async #opened(endsAt: number, { timeout, signal }: SettledOptions): Promise<void> {
    // An open that fails has told its caller.
    const opened = Promise.allSettled(this.#opening).then(() => true);
    for (let done = this.#opening.size === 0; !done;) {
      const leftMs = Math.min(Math.max(0, endsAt - performance.now()), LIMITS.timerMs);
      const enough = new AbortController();
      const over = pause(leftMs, signal, enough.signal).then(() => false);
      over.catch(() => undefined);
      done = await Promise.race([opened, over]).finally(() => enough.abort());
      if (!done && performance.now() >= endsAt) throw this.#notOpened(timeout);
    }
  }

  /**
   * Waits once and reads all pages. What is opened or ends meanwhile may be missing in them: then the turn is not
   * settled yet.
   */
  async #look(waitMs: number, options: RequestOptions): Promise<TurnStatus> {
    const [begun, underWay] = [this.#begun, this.#opening.size];
    const first = await this.#page(0, waitMs, options);
    let last = first;
    const outcomes = first.outcomes.map(outcomeFromWire);
    while (last.nextAfterSeq !== 0) {
      last = await this.#page(last.nextAfterSeq, 0, options);
      outcomes.push(...last.outcomes.map(outcomeFromWire));
    }
    const ended = new Set(outcomes.map(({ callId }) => callId));
    // A call of the first page that ends before the last one is in the outcomes of neither.
    const { open } = first.settled ? last : first;
    return {
      settled: first.settled && last.settled && underWay === 0 && this.#begun === begun,
      outcomes,
      open: open.filter(({ callId }) => !ended.has(callId)).map(openFromWire),
    };
  }

  #page(afterSeq: number, waitMs: number, options: RequestOptions): Promise<WaitCallsResponse> {
    const timeout = durationFromMs(waitMs);
    const request = { runId: this.runId, turn: this.number, timeout, afterSeq };
    const held = { ...options, waitMs };
    return this.#unary.send((callOptions) => this.#unary.calls.waitCalls(request, callOptions), held);
  }

  #notOpened(timeout: Duration | undefined): TurnTimeoutError {
    const message = `turn ${this.number} is not settled after ${timeout ?? ""}; still being opened here: ${this.#opening.size}`;
    return new TurnTimeoutError(message, [], []);
  }

  #timedOut(look: TurnStatus, timeout: Duration | undefined): TurnTimeoutError {
    const open = look.open
      .slice(0, NAMED_CALLS)
      .map(({ callId, tool, state }) => `${callId} (${tool}, ${state})`)
      .join(", ");
    const more =
      look.open.length > NAMED_CALLS ? `, and ${look.open.length - NAMED_CALLS} or more others` : "";
    const message = `turn ${this.number} is not settled after ${timeout ?? ""}; open: ${open || "not known yet"}${more}`;
    return new TurnTimeoutError(message, look.open, look.outcomes);
  }
}

const openFromWire = ({ callId, key, tool, state }: WireOpenCall): OpenCall => ({
  ...{ callId, key, tool },
  state: stateFromWire(state),
});
