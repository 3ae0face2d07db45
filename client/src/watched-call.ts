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

/** Who waits for an outcome. */
export interface Waiter {
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: Error) => void;
  /** Ends the listening to a signal. */
  forget?: () => void;
}

const NONE: readonly Waiter[] = [];

/** A call whose outcome comes by some carrier, and those who wait for it. */
export class WatchedCall {
  readonly callId: string;
  /** What delivers the outcome, whether it is still open or not. */
  carrier: DriveCarrier | undefined;
  readonly #port: WatchPort;
  /** Nearly always one. */
  #waiters: Waiter[] | undefined;
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
    if (this.#waiters !== undefined) return true;
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
    return new Promise((resolve, reject) => this.wait({ resolve, reject }, signal));
  }

  /** As `outcome`, for a promise that is there already. */
  wait(waiter: Waiter, signal?: AbortSignal): void {
    if (this.#outcome !== undefined) {
      waiter.resolve(this.#outcome);
      return;
    }
    if (signal?.aborted) {
      waiter.reject(abortReason(signal));
      return;
    }
    if (this.#waiters === undefined) this.#waiters = [waiter];
    else this.#waiters.push(waiter);
    if (signal !== undefined) this.#leaveAtAbort(waiter, signal);
    this.#port.adjustAwaited(1);
    this.#port.watch(this);
  }

  /** The outcome has come. */
  end(outcome: Outcome): void {
    this.#outcome = outcome;
    for (const waiter of this.#takeWaiters()) waiter.resolve(outcome);
    if (this.#others !== undefined) for (const other of this.#others) other.end(outcome);
    this.#finish();
  }

  /** No outcome will come. */
  fail(error: Error): void {
    for (const waiter of this.#takeWaiters()) waiter.reject(error);
    if (this.#others !== undefined) for (const other of this.#others) other.fail(error);
    this.#finish();
  }

  #finish(): void {
    const callbacks = this.#atEnd;
    this.#atEnd = undefined;
    this.#others = undefined;
    callbacks?.forEach((callback) => callback());
  }

  #takeWaiters(): readonly Waiter[] {
    const waiters = this.#waiters;
    if (waiters === undefined) return NONE;
    this.#waiters = undefined;
    for (const { forget } of waiters) {
      forget?.();
      this.#port.adjustAwaited(-1);
    }
    return waiters;
  }

  #leaveAtAbort(waiter: Waiter, signal: AbortSignal): void {
    waiter.forget = onAbort(signal, () => {
      const others = this.#waiters?.filter((other) => other !== waiter);
      this.#waiters = others?.length === 0 ? undefined : others;
      this.#port.adjustAwaited(-1);
      waiter.reject(abortReason(signal));
    });
  }
}
