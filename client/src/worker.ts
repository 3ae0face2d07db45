import { hostname } from "node:os";
import { onAbort } from "./abort.js";
import { checkSignal, onlyFields, refuseArgument, whole } from "./argument.js";
import { parseDuration, type Duration } from "./duration.js";
import { TrunklineError } from "./errors.js";
import { storableText } from "./failure.js";
import { runHandler, type CallInfo, type HandlerPort, type ToolHandler } from "./handler.js";
import { addHandlers, checkHandlers } from "./handler-table.js";
import type { HeldClaim } from "./held-claim.js";
import { LIMITS } from "./limits.js";
import { typeOf, wellFormed } from "./text.js";
import type { Endpoint } from "./transport.js";
import { callUser } from "./user-callback.js";
import { WorkSession } from "./work-session.js";
import type { WorkerStatus } from "./worker-status.js";

/** Told what nobody else sees; with the call that it came from, if it came from one. */
export type OnError = (error: unknown, call?: CallInfo) => void;

/** What a worker is made of. */
export interface WorkerOptions {
  /** Handlers by the names of their tools; at least one. */
  readonly tools: Readonly<Record<string, ToolHandler>>;
  /** Only calls of runs with this toolset. Default: any. */
  readonly toolset?: string;
  /** How many handlers run at once, 1 to 10,000. Default 10. */
  readonly concurrency?: number;
  /** For people, at most 256 bytes. Default: host name and process id. */
  readonly name?: string;
  /** Stops the worker, as `stop()` does, when it aborts. */
  readonly signal?: AbortSignal;
  /**
   * Told of handlers that threw something unexpected or returned what JSON cannot carry, of claims that
   * were lost, and of a refused key. Default `console.error`.
   */
  readonly onError?: OnError;
  /** Told of every change of `worker.status`, for a health probe or a log. */
  readonly onStatus?: (status: WorkerStatus) => void;
  /**
   * How long one request waits for calls where the network carries no streams (see `transport`), at most 60 s; a
   * stream does not need it. Default 30 s.
   */
  readonly pollWait?: Duration;
}

/** How to stop. */
export interface StopOptions {
  /**
   * How long handlers may go on; then their signals abort and what they return is dropped. Default: for as
   * long as they need.
   */
  readonly timeout?: Duration;
}

const OPTIONS: Record<keyof WorkerOptions, true> = {
  tools: true,
  toolset: true,
  concurrency: true,
  name: true,
  signal: true,
  onError: true,
  onStatus: true,
  pollWait: true,
};

const DEFAULT_CONCURRENCY = 10;
const DEFAULT_POLL_WAIT = "30s";
const MAX_POLL_WAIT_MS = 60_000;
const NAME_BYTES = 256;

/**
 * Runs tools for as long as it is not stopped, whatever happens to connections and servers. Made by
 * `Trunkline.worker`; it starts at once.
 */
export class Worker {
  /** For people. */
  readonly name: string;
  /**
   * Resolves when the worker has stopped; rejects with a `TrunklineError` when the server refuses the
   * credential (UNAUTHENTICATED, PERMISSION_DENIED), which also goes to `onError`.
   */
  readonly done: Promise<void>;
  readonly #handlers: Map<string, ToolHandler>;
  readonly #onError: OnError;
  readonly #session: WorkSession;
  #stopTimer: NodeJS.Timeout | undefined;

  /** Use `Trunkline.worker`. */
  constructor(endpoint: Endpoint, options: WorkerOptions, onWarning: (message: string) => void) {
    const checked = checkOptions(options);
    this.name = checked.name;
    this.#handlers = checked.handlers;
    this.#onError = options.onError ?? console.error;
    const { promise, resolve, reject } = withResolvers();
    this.done = promise;
    // Who does not look at `done` has heard of it by onError.
    this.done.catch(() => undefined);
    let forgetSignal = (): void => undefined;
    this.#session = new WorkSession(
      endpoint,
      {
        name: this.name,
        toolset: options.toolset ?? "",
        concurrency: options.concurrency ?? DEFAULT_CONCURRENCY,
        pollWaitMs: checked.pollWaitMs,
      },
      {
        tools: () => [...this.#handlers.keys()],
        hasHandler: (tool) => this.#handlers.has(tool),
        run: (held, port) => this.#run(held, port),
        report: (error, held) => this.#report(error, held),
        onStatus: (status) => this.#tellStatus(options.onStatus, status),
        warn: (error) => onWarning(`worker ${this.name}: ${error.message}; it keeps trying`),
        recovered: () => onWarning(`worker ${this.name}: connected to ${endpoint.url} again`),
        closed: (error) => {
          clearTimeout(this.#stopTimer);
          forgetSignal();
          if (error === undefined) resolve();
          else {
            this.#report(error);
            reject(error);
          }
        },
      },
    );
    const { signal } = options;
    if (signal !== undefined) forgetSignal = onAbort(signal, () => void this.stop());
  }

  /** Where the worker stands: `connected` while it takes calls, `deaf` when its container had better be replaced. */
  get status(): WorkerStatus {
    return this.#session.status;
  }

  /** The tools that it runs, in the order in which they were given. */
  get tools(): readonly string[] {
    return [...this.#handlers.keys()];
  }

  /**
   * Runs further tools from now on, beside those that it has; what it holds goes on undisturbed. Of a worker that stops
   * they get no call.
   *
   * @throws TrunklineError INVALID_FIELD for what is no handler, and a tool that has one already; then none is added
   */
  add(tools: WorkerOptions["tools"]): void {
    if (addHandlers(this.#handlers, tools) === 0) return;
    this.#session.toolsChanged();
  }

  /**
   * Takes no further call, hands back what has not started, lets handlers finish, delivers what they say,
   * and closes. Where the server cannot be reached it gives up delivering 10 s after the last handler has
   * ended. Again, it returns the same promise, which is `done`.
   */
  stop(options: StopOptions = {}): Promise<void> {
    onlyFields(options, { timeout: true }, "options");
    const timeoutMs = options.timeout === undefined ? undefined : parseDuration(options.timeout, "timeout");
    this.#session.drain();
    // Of a worker that has stopped, nothing would ever clear it.
    if (timeoutMs !== undefined && this.#stopTimer === undefined && this.status !== "stopped") {
      this.#stopTimer = setTimeout(
        () =>
          this.#session.abandon(new TrunklineError("TIMEOUT", `stop: handlers took over ${timeoutMs} ms`)),
        Math.min(timeoutMs, LIMITS.timerMs),
      );
    }
    return this.done;
  }

  /** Stops the worker at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #run(held: HeldClaim, port: HandlerPort): void {
    const handler = this.#handlers.get(held.claim.tool);
    if (handler !== undefined) void runHandler(held, handler, port);
  }

  #tellStatus(onStatus: WorkerOptions["onStatus"], status: WorkerStatus): void {
    callUser(
      "onStatus",
      () => onStatus?.(status),
      (fault) => this.#report(fault),
    );
  }

  #report(error: unknown, held?: HeldClaim): void {
    const call = held && { callId: held.claim.callId, tool: held.claim.tool, attempt: held.claim.attempt };
    callUser("onError", () => (call === undefined ? this.#onError(error) : this.#onError(error, call)));
  }
}

interface CheckedOptions {
  readonly name: string;
  readonly handlers: Map<string, ToolHandler>;
  readonly pollWaitMs: number;
}

function checkOptions(options: WorkerOptions): CheckedOptions {
  onlyFields(options, OPTIONS, "options");
  const { concurrency = DEFAULT_CONCURRENCY, pollWait = DEFAULT_POLL_WAIT, toolset = "" } = options;
  const handlers = checkHandlers(options.tools);
  if (handlers.size === 0)
    throw refuseArgument("tools", "it is empty", "allowed is one handler or more, by tool name");
  whole(concurrency, "concurrency", 1, LIMITS.concurrency);
  wellFormed(toolset, "toolset");
  checkSignal(options.signal);
  const pollWaitMs = parseDuration(pollWait, "pollWait");
  if (pollWaitMs > MAX_POLL_WAIT_MS) throw refuseArgument("pollWait", pollWait, "allowed are at most 60 s");
  const { name = `${hostname()}:${process.pid}` } = options;
  // A worker's name is for people: what cannot be shown is replaced, and only what is no text refused.
  if (typeOf(name) !== "string") wellFormed(name, "name");
  return { name: storableText(name, NAME_BYTES), handlers, pollWaitMs };
}

function withResolvers(): { promise: Promise<void>; resolve: () => void; reject: (error: unknown) => void } {
  let resolve: () => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<void>((settle, fail) => {
    resolve = settle;
    reject = fail;
  });
  return { promise, resolve, reject };
}
