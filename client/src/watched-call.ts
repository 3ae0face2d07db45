import { abortReason, onAbort } from "./abort.js";
import type { Outcome } from "./call.js";
import type { DriveCarrier } from "./drive-carrier.js";

/** What a {@link WatchedCall} asks of its client's calls. */
export interface WatchPort {
  /** A waiter came or went. */
  adjustAwaited(by: 1 | -1): void;
  /** Has the outcome delivered to `end`, unless what is open delivers it already. */
  watch(call: WatchedCall): void;
}

interface Waiter {
  resolve(outcome: Outcome): void;
  reject(error: Error): void;
}

/** A call whose outcome comes by some carrier, and those who wait for it. */
export class WatchedCall {
  readonly callId: string;
  /** What delivers the outcome, whether it is still open or not. */
  carrier: DriveCarrier | undefined;
  readonly #port: WatchPort;
  readonly #waiters = new Set<Waiter>();
  /** Other handles of the call, of which no carrier knows. Nearly always there are none. */
  #others: Set<WatchedCall> | undefined;
  #outcome: Outcome | undefined;
  #atEnd: (() => void)[] | undefined;

  constructor(callId: string, port: WatchPort) {
    this.callId = callId;
    this.#port = port;
  }

  /** Whether somebody waits. */
  get awaited(): boolean {
    if (this.#waiters.size > 0) return true;
    return this.#others !== undefined && [...this.#others].some(({ awaited }) => awaited);
  }

  /** Tells another handle of the same call what comes of it; whoever waits there may leave as before. */
  tell(other: WatchedCall): void {
    this.#others ??= new Set();
    this.#others.add(other);
  }

  /** Nothing delivers its outcome any more, and nobody waits for it. */
  unwatched(): void {
    this.carrier = undefined;
    this.#others = undefined;
  }

  /** Calls back when nothing more is to come. */
  atEnd(callback: () => void): void {
    this.#atEnd ??= [];
    this.#atEnd.push(callback);
  }

  /** Waits for the outcome; with a signal, only until it aborts. */
  outcome(signal?: AbortSignal): Promise<Outcome> {
    if (this.#outcome !== undefined) return Promise.resolve(this.#outcome);
    return new Promise((resolve, reject) => {
      let forget = (): void => undefined;
      const waiter: Waiter = {
        resolve: (outcome) => {
          forget();
          resolve(outcome);
        },
        reject: (error) => {
          forget();
          reject(error);
        },
      };
      this.#waiters.add(waiter);
      this.#port.adjustAwaited(1);
      if (signal !== undefined) {
        forget = onAbort(signal, () => {
          this.#leave(waiter);
          reject(abortReason(signal));
        });
      }
      if (this.#waiters.has(waiter)) this.#port.watch(this);
    });
  }

  /** The outcome has come. */
  end(outcome: Outcome): void {
    this.#outcome = outcome;
    for (const waiter of this.#waiters) {
      this.#leave(waiter);
      waiter.resolve(outcome);
    }
    for (const other of this.#others ?? []) other.end(outcome);
    this.#finish();
  }

  /** No outcome will come. */
  fail(error: Error): void {
    for (const waiter of this.#waiters) {
      this.#leave(waiter);
      waiter.reject(error);
    }
    for (const other of this.#others ?? []) other.fail(error);
    this.#finish();
  }

  #finish(): void {
    const callbacks = this.#atEnd ?? [];
    this.#atEnd = undefined;
    this.#others = undefined;
    for (const callback of callbacks) callback();
  }

  #leave(waiter: Waiter): void {
    if (this.#waiters.delete(waiter)) this.#port.adjustAwaited(-1);
  }
}
