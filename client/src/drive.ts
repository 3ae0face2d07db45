import type { CallSpec, DriveResponse, Opened } from "@trunkline/proto/call";
import type { Outcome as WireOutcome } from "@trunkline/proto/model";
import { abortReason, onAbort } from "./abort.js";
import { outcomeFromWire, type Outcome } from "./call.js";
import type { DriveCarrier, DriveCarrierOwner } from "./drive-carrier.js";
import { DrivePoll } from "./drive-poll.js";
import { DriveStream } from "./drive-stream.js";
import { TrunklineError } from "./errors.js";
import { orderedKeys } from "./ordered-keys.js";
import { PendingOpen } from "./pending-open.js";
import { errorFromProblem, errorFromRpc, isTransient, isUnsendable } from "./problem.js";
import { TROUBLE_MS } from "./reconnect.js";
import { Refusals } from "./refusals.js";
import { StreamKeeper } from "./stream-keeper.js";
import type { Endpoint } from "./transport.js";
import { WatchedCall, type WatchPort } from "./watched-call.js";

/** How long an idle stream stays open for the next call. */
const IDLE_MS = 60_000;

/** When to send again what the server could not take and named no delay for. */
const RETRY_MS = 500;

/** Within which time at most the first try after a cut comes: a harness waits for it, unlike a worker. */
const SPREAD_MS = 1_000;

/** Request numbers are of 32 bits; 0 is "none" in unary answers. */
const REQUEST_LIMIT = 2 ** 32;

/** A call that was opened, and what is known of its end. */
export interface OpenedCall {
  readonly callId: string;
  readonly key: string;
  /** False when the key named a call that was there already. */
  readonly created: boolean;
  /** Waits for the outcome; with a signal, only until it aborts. */
  outcome(signal?: AbortSignal): Promise<Outcome>;
}

/** What a {@link Drive} needs of its client. */
export interface DriveHost {
  warn(message: string): void;
  /** Cancels a call that nobody wants any more. */
  cancel(callId: string): void;
}

/**
 * The calls of a client: opens them on one shared stream and brings their outcomes back, across cuts and
 * restarts of the server. An open that was not acknowledged is sent again under the same key; an outcome
 * that somebody waits for is watched again.
 */
export class Drive implements DriveCarrierOwner, WatchPort {
  readonly #endpoint: Endpoint;
  readonly #host: DriveHost;
  readonly #carriers = new Set<DriveCarrier>();
  readonly #opens = new Map<number, PendingOpen>();
  readonly #calls = new Map<string, WatchedCall>();
  readonly #unserved = new Set<string>();
  readonly #newKey = orderedKeys("sdk");
  readonly #forgetRoute: () => void;
  readonly #refusals: Refusals;
  #keeper: StreamKeeper<DriveCarrier>;
  #intervalMs = SPREAD_MS;
  #requests = 0;
  #awaited = 0;
  #idle: NodeJS.Timeout | undefined;
  /** While a server that is there takes no call, for now. */
  #refusing: { readonly since: number; told: boolean } | undefined;
  #closed = false;

  constructor(endpoint: Endpoint, host: DriveHost) {
    this.#endpoint = endpoint;
    this.#host = host;
    this.#refusals = new Refusals(endpoint.renewsKey);
    this.#keeper = this.#makeKeeper();
    this.#forgetRoute = endpoint.route.onRetry(() => {
      if (this.#keeper.active instanceof DrivePoll) this.#keeper.tryAnother();
    });
  }

  /**
   * Opens a call; resolves when the server has stored it. When the signal aborts, the open is taken back
   * or, where it may have arrived, canceled.
   */
  open(runId: string, spec: CallSpec, signal?: AbortSignal): Promise<OpenedCall> {
    return new Promise((resolve, reject) => {
      const stored: PendingOpen["stored"] = (call, { callId, key, created }) =>
        resolve({ callId, key, created, outcome: (until) => call.outcome(until) });
      this.#start(spec, new PendingOpen(runId, spec, signal, stored, reject));
    });
  }

  /** Opens a call and waits for its outcome: `open` and `outcome` in one, with the same signal. */
  call(runId: string, spec: CallSpec, signal?: AbortSignal): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const stored: PendingOpen["stored"] = (call) => call.wait({ resolve, reject }, signal);
      this.#start(spec, new PendingOpen(runId, spec, signal, stored, reject));
    });
  }

  #start(spec: CallSpec, pending: PendingOpen): void {
    const { signal } = pending;
    if (this.#closed) {
      pending.reject(closedError());
      return;
    }
    if (signal?.aborted) {
      pending.reject(abortReason(signal));
      return;
    }
    // With a key of its own an open may be sent again without opening a second call.
    if (spec.key === "") spec.key = this.#newKey();
    const request = (this.#requests = (this.#requests % (REQUEST_LIMIT - 1)) + 1);
    pending.open.request = request;
    this.#opens.set(request, pending);
    if (signal !== undefined) this.#takeBackAtAbort(pending, signal);
    this.#keeper.active?.send(pending);
    this.#touch();
  }

  #takeBackAtAbort(pending: PendingOpen, signal: AbortSignal): void {
    pending.forget = onAbort(signal, () => this.#takeBack(pending, signal));
  }

  #takeBack(pending: PendingOpen, signal: AbortSignal): void {
    pending.reject(abortReason(signal));
    if (pending.sent) {
      pending.stored = ({ callId }) => this.#host.cancel(callId);
      return;
    }
    pending.withdrawn = true;
    this.#opens.delete(pending.open.request);
    this.#touch();
  }

  /** Rejects what is waited for and ends the stream. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#forgetRoute();
    this.#rejectAll(closedError());
    this.#keeper.close();
    clearTimeout(this.#idle);
    for (const carrier of this.#carriers) carrier.drop(closedError());
  }

  onWelcome(carrier: DriveCarrier): void {
    this.#keeper.welcomed(carrier);
    this.#intervalMs = carrier.intervalMs;
    for (const pending of this.#opens.values()) carrier.send(pending);
    for (const [callId, call] of this.#calls) {
      if (call.awaited) {
        this.#watch(call, carrier);
        continue;
      }
      // Whoever asks for it later has it watched then.
      this.#calls.delete(callId);
      call.unwatched();
    }
    this.#touch();
    for (const older of this.#carriers) if (older !== carrier) older.end();
  }

  onFrame(carrier: DriveCarrier, frame: DriveResponse): void {
    this.#refusals.accepted();
    for (const opened of frame.opened) this.#onOpened(carrier, opened);
    for (const { request, problem } of frame.refused) {
      const error = problem === undefined ? unexplained() : errorFromProblem(problem);
      if (isTransient(error)) this.#sendAgain(request, error);
      else this.#take(request)?.reject(error);
    }
    for (const outcome of frame.outcomes) this.#onOutcome(outcome);
    for (const { callId, problem } of frame.unwatched) {
      this.#onUnwatched(callId, problem === undefined ? unexplained() : errorFromProblem(problem));
    }
    if (frame.goaway !== undefined) this.#keeper.goaway(carrier);
    this.#touch();
  }

  onEnd(carrier: DriveCarrier, cause: unknown): void {
    this.#carriers.delete(carrier);
    if (this.#endpoint.route.next === "poll" && carrier instanceof DriveStream) this.#keeper.changeWay();
    this.#keeper.ended(carrier, cause);
  }

  isAwaited(callId: string): boolean {
    const call = this.#calls.get(callId);
    if (call?.awaited === true) return true;
    this.#calls.delete(callId);
    call?.unwatched();
    return false;
  }

  /** A waiter came or went. */
  adjustAwaited(by: 1 | -1): void {
    const wasBusy = this.#isBusy;
    this.#awaited += by;
    if (this.#isBusy !== wasBusy) this.#touch();
  }

  /** Has a call's outcome delivered, unless the stream that is open delivers it already. */
  watch(call: WatchedCall): void {
    if (this.#closed) {
      call.fail(closedError());
      return;
    }
    const watched = this.#calls.get(call.callId);
    if (watched !== undefined && watched !== call) {
      // Another handle of the same call has it delivered. It is not waited for there: waiters here may leave.
      watched.tell(call);
      this.watch(watched);
      return;
    }
    this.#calls.set(call.callId, call);
    const active = this.#keeper.active;
    if (active !== undefined && call.carrier !== active) this.#watch(call, active);
  }

  #onOutcome(outcome: WireOutcome): void {
    const call = this.#calls.get(outcome.callId);
    if (call === undefined) return;
    this.#calls.delete(outcome.callId);
    let read: Outcome;
    try {
      read = outcomeFromWire(outcome);
    } catch (cause) {
      // One outcome that cannot be read must not end the stream for all others.
      call.fail(new TrunklineError("INTERNAL", `${outcome.callId}: its outcome is not JSON`, { cause }));
      return;
    }
    call.end(read);
  }

  /** The server cannot take it now; on another stream it would be sent again anyway. */
  #sendAgain(request: number, error: TrunklineError): void {
    const timer = setTimeout(() => {
      const pending = this.#opens.get(request);
      if (pending !== undefined) this.#keeper.active?.send(pending);
    }, error.retryAfterMs ?? RETRY_MS);
    timer.unref();
    const now = performance.now();
    this.#refusing ??= { since: now, told: false };
    if (this.#refusing.told || now - this.#refusing.since < TROUBLE_MS) return;
    this.#refusing.told = true;
    this.#host.warn(`${this.#endpoint.url} takes no call: ${error.message}; calls wait until it does`);
  }

  #onUnwatched(callId: string, error: TrunklineError): void {
    const call = this.#calls.get(callId);
    if (call === undefined) return;
    if (!isTransient(error)) {
      this.#calls.delete(callId);
      call.fail(error);
      return;
    }
    const timer = setTimeout(() => {
      const active = this.#keeper.active;
      if (active !== undefined && this.#calls.get(callId) === call) this.#watch(call, active);
    }, error.retryAfterMs ?? RETRY_MS);
    timer.unref();
  }

  #watch(call: WatchedCall, carrier: DriveCarrier): void {
    call.carrier = carrier;
    carrier.send({ kind: "watch", callId: call.callId });
  }

  #makeKeeper(): StreamKeeper<DriveCarrier> {
    return new StreamKeeper<DriveCarrier>({
      open: () => {
        const polls = this.#endpoint.route.next === "poll";
        const carrier = polls ? new DrivePoll(this.#endpoint, this) : new DriveStream(this.#endpoint, this);
        this.#carriers.add(carrier);
        return carrier;
      },
      spreadMs: () => Math.min(this.#intervalMs, SPREAD_MS),
      wanted: () => this.#isBusy,
      explain: (cause) => {
        const ended = new TrunklineError("UNAVAILABLE", "the server ended the stream");
        const error = errorFromRpc(cause ?? ended, this.#endpoint.url);
        if (isUnsendable(cause)) this.#dropUnsendable(error);
        if (error.reason === "FRAME_TOO_LARGE" || error.reason === "LIMIT_EXCEEDED") this.#dropLargest(error);
        return error;
      },
      isFatal: (error) => this.#refusals.isFinal(error),
      onFatal: (error) => {
        // First, while nothing is opened any more: the first that is rejected finds the others waiting still.
        this.#rejectAll(error);
        // What is asked next may be asked with a key that was put right meanwhile.
        this.#keeper = this.#makeKeeper();
      },
      onTrouble: (error) => this.#host.warn(`${error.message}; calls wait until the server is there`),
    });
  }

  get #isBusy(): boolean {
    return !this.#closed && (this.#opens.size > 0 || this.#awaited > 0);
  }

  /** Opens the stream when it is needed, and lets the process end when it is not. */
  #touch(): void {
    const busy = this.#isBusy;
    this.#keeper.keepAlive(busy);
    for (const carrier of this.#carriers) carrier.keepAlive(busy);
    const { newest, active } = this.#keeper;
    if (busy) {
      clearTimeout(this.#idle);
      this.#idle = undefined;
      this.#keeper.start();
    } else if (newest !== undefined && newest !== active) {
      // A connection that is still being made would keep the process alive.
      newest.drop(closedError());
    } else if (this.#carriers.size > 0 && this.#idle === undefined) {
      this.#dropWhenIdle();
    }
  }

  #dropWhenIdle(): void {
    this.#idle = setTimeout(() => {
      this.#idle = undefined;
      for (const carrier of this.#carriers) carrier.drop(closedError());
    }, IDLE_MS);
    this.#idle.unref();
  }

  #take(request: number): PendingOpen | undefined {
    const pending = this.#opens.get(request);
    this.#opens.delete(request);
    pending?.forget?.();
    return pending;
  }

  #onOpened(carrier: DriveCarrier, opened: Opened): void {
    this.#refusing = undefined;
    const pending = this.#take(opened.request);
    if (pending === undefined) return;
    const { callId, created, noWorker } = opened;
    const tool = pending.open.call?.tool ?? "";
    if (noWorker && !this.#unserved.has(tool)) {
      this.#unserved.add(tool);
      this.#host.warn(
        `no worker for the tool ${tool} was seen in the last 5 minutes; its calls wait for one`,
      );
    }
    const watched = this.#calls.get(callId) ?? new WatchedCall(callId, this);
    // Where outcomes do not come by themselves, it is watched as soon as somebody asks for it.
    if (carrier.delivers) {
      this.#calls.set(callId, watched);
      // Opened before, it may have ended, and its outcome been delivered, long ago.
      if (created) watched.carrier = carrier;
      else this.#watch(watched, carrier);
    }
    if (pending.signal !== undefined) this.#cancelAtAbort(watched, pending.signal);
    pending.stored(watched, opened);
  }

  #cancelAtAbort(call: WatchedCall, signal: AbortSignal): void {
    if (!signal.aborted) call.atEnd(onAbort(signal, () => this.#host.cancel(call.callId)));
  }

  /** A frame was refused for its size: its largest open is not sent again. */
  #dropLargest(refusal: TrunklineError): void {
    let largest: PendingOpen | undefined;
    for (const pending of this.#opens.values()) if (pending.bytes > (largest?.bytes ?? 0)) largest = pending;
    if (largest !== undefined) this.#take(largest.open.request)?.reject(refusal);
  }

  /** A frame could not be written: the opens that cannot be are not sent again, or no stream would ever last. */
  #dropUnsendable(refusal: TrunklineError): void {
    for (const pending of [...this.#opens.values()]) {
      if (!pending.sendable) this.#take(pending.open.request)?.reject(refusal);
    }
  }

  #rejectAll(error: Error): void {
    const opens = [...this.#opens.values()];
    const calls = [...this.#calls.values()];
    this.#opens.clear();
    this.#calls.clear();
    for (const pending of opens) {
      pending.forget?.();
      pending.reject(error);
    }
    for (const call of calls) call.fail(error);
  }
}

const closedError = (): TrunklineError => new TrunklineError("CLOSED", "the client was closed");

const unexplained = (): TrunklineError =>
  new TrunklineError("INTERNAL", "the server refused it without a reason");
