import { abortReason, onAbort, pause } from "./abort.js";
import { checkSignal, onlyFields } from "./argument.js";
import type { Call } from "./call.js";
import { isRefusedCredential, mayPass, TrunklineError } from "./errors.js";
import { LIMITS } from "./limits.js";
import { Backoff, TROUBLE_MS } from "./reconnect.js";
import { Refusals } from "./refusals.js";
import type { RunInfo } from "./run-info.js";
import { wellFormed } from "./text.js";

/** What has become of a run: a call of it that changed, as it stands, or the run itself. */
export type RunEvent =
  | { readonly type: "call"; readonly call: Call; readonly cursor: string }
  | { readonly type: "run"; readonly run: RunInfo; readonly cursor: string };

/** How a run is watched. */
export interface WatchOptions {
  /** `cursor` of an event, of this process or another: goes on after it. Default: from the beginning. */
  readonly cursor?: string;
  /** Aborting it ends the watching with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** One response of a stream. */
export interface WatchFrame {
  /** Names its place. */
  readonly cursor: string;
  /** How often one comes at least, in milliseconds; on the first. */
  readonly heartbeatMs: number | undefined;
  /** Undefined for a mere sign of life, and for what a newer server tells. */
  readonly event: RunEvent | undefined;
}

/** What watching needs of its client. */
export interface WatchPort {
  /** Opens one stream; resolves when it may be opened, where it has to wait for that. The signal's abort ends it. */
  open(
    request: { readonly runId: string; readonly cursor: string },
    signal: AbortSignal,
  ): AsyncIterable<WatchFrame> | Promise<AsyncIterable<WatchFrame>>;
  /** Nothing comes any more: the next stream takes another connection. */
  giveUp(): void;
  /** Turns what ended a stream into an error. */
  explain(thrown: unknown): TrunklineError;
  /** Whether there is another key to be had where one is refused. */
  readonly renewsKey: boolean;
  /** Told once per outage, when it has lasted a while. */
  warn(message: string): void;
}

const OPTIONS: Record<keyof WatchOptions, true> = { cursor: true, signal: true };

/** How long a stream may take to its first response, which comes at once. */
const FIRST_MS = 10_000;
/** Silent intervals after which a connection is dead. */
const SILENT_INTERVALS = 3;

/**
 * Watches a run, over as many streams as it takes.
 *
 * @throws TrunklineError INVALID_FIELD for options that cannot be; the rest while iterating
 */
export function watchRun(port: WatchPort, runId: string, options: WatchOptions): AsyncIterable<RunEvent> {
  onlyFields(options, OPTIONS, "options");
  const { cursor = "", signal } = options;
  wellFormed(cursor, "cursor");
  checkSignal(signal);
  return { [Symbol.asyncIterator]: () => new Watch(port, runId, cursor, signal).events() };
}

/** One iteration over the events of a run. */
class Watch {
  readonly #port: WatchPort;
  readonly #runId: string;
  readonly #signal: AbortSignal | undefined;
  readonly #backoff = new Backoff();
  readonly #refusals: Refusals;
  #cursor: string;
  /** From the first response on. */
  #intervalMs: number | undefined;
  #told = false;

  constructor(port: WatchPort, runId: string, cursor: string, signal: AbortSignal | undefined) {
    this.#port = port;
    this.#runId = runId;
    this.#cursor = cursor;
    this.#signal = signal;
    this.#refusals = new Refusals(port.renewsKey);
  }

  async *events(): AsyncGenerator<RunEvent, void, undefined> {
    for (;;) {
      const cut = yield* this.#stream();
      if (cut === undefined) return;
      if (this.#signal?.aborted) throw abortReason(this.#signal);
      await this.#pauseAfter(cut.thrown);
    }
  }

  /** The events of one stream; what cut it, or undefined where the server ended it in order. */
  async *#stream(): AsyncGenerator<RunEvent, { readonly thrown: unknown } | undefined, undefined> {
    const over = new AbortController();
    const signal = this.#signal;
    const forget = signal === undefined ? undefined : onAbort(signal, () => over.abort(abortReason(signal)));
    this.#intervalMs = undefined;
    try {
      const request = { runId: this.#runId, cursor: this.#cursor };
      let responses: AsyncIterator<WatchFrame, unknown> | undefined;
      for (;;) {
        let next: IteratorResult<WatchFrame, unknown>;
        try {
          responses ??= (await this.#port.open(request, over.signal))[Symbol.asyncIterator]();
          next = await this.#heard(responses.next(), over);
        } catch (thrown) {
          return { thrown };
        }
        if (next.done === true) return undefined;
        this.#welcome(next.value);
        const { event } = next.value;
        if (event !== undefined) yield event;
      }
    } finally {
      forget?.();
      over.abort();
    }
  }

  /** Gives up a connection on which nothing comes any more. Who takes long over an event does not count. */
  async #heard<T>(next: Promise<T>, over: AbortController): Promise<T> {
    const intervalMs = this.#intervalMs;
    const silentMs = intervalMs === undefined ? FIRST_MS : SILENT_INTERVALS * intervalMs;
    const giveUp = (): void => {
      over.abort(new TrunklineError("UNAVAILABLE", `the connection is dead: silent for ${silentMs} ms`));
      this.#port.giveUp();
    };
    // This process may have stood still itself, so what has arrived meanwhile is read first.
    let timer = setTimeout(
      () => {
        timer = setTimeout(() => {
          timer = setTimeout(giveUp, 0);
        }, 0);
      },
      Math.min(silentMs, LIMITS.timerMs),
    );
    try {
      return await next;
    } finally {
      clearTimeout(timer);
    }
  }

  #welcome({ cursor, heartbeatMs = FIRST_MS }: WatchFrame): void {
    this.#cursor = cursor;
    if (this.#intervalMs !== undefined) return;
    this.#intervalMs = heartbeatMs;
    this.#backoff.reset();
    this.#refusals.accepted();
    this.#told = false;
  }

  /** @throws TrunklineError where trying again is useless */
  async #pauseAfter(thrown: unknown): Promise<void> {
    const error = this.#port.explain(thrown);
    if (isRefusedCredential(error) && !this.#refusals.isFinal(error)) return;
    if (!mayPass(error)) throw error;
    const good = this.#intervalMs;
    const pauseMs = good === undefined ? this.#backoff.next() : this.#backoff.first(good);
    if (!this.#told && this.#backoff.outageMs() >= TROUBLE_MS) {
      this.#told = true;
      this.#port.warn(`${error.message}; watching run ${this.#runId} goes on once it is back`);
    }
    await pause(error.retryAfterMs ?? pauseMs, this.#signal);
  }
}
