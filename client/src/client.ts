import { inspect } from "node:util";
import { onlyFields } from "./argument.js";
import { Calls } from "./calls.js";
import { Decisions, type DecisionsOptions } from "./decisions.js";
import { Drive } from "./drive.js";
import { parseDuration, type Duration } from "./duration.js";
import { TrunklineError } from "./errors.js";
import { Keys } from "./keys.js";
import { Projects } from "./projects.js";
import { Runs } from "./runs.js";
import { Sessions } from "./sessions.js";
import { Tasks } from "./tasks.js";
import { Tokens } from "./tokens.js";
import { Toolsets } from "./toolsets.js";
import { Endpoint, type EndpointOptions } from "./transport.js";
import { Unary } from "./unary.js";
import { callUser } from "./user-callback.js";
import { WatchConnection } from "./watch-connection.js";
import { Worker, type WorkerOptions } from "./worker.js";

/** How a client reaches its server and speaks to its user. */
export interface TrunklineOptions extends EndpointOptions {
  /**
   * How long a request that is no call (creating a run, listing, settling) is tried again when the server
   * cannot be reached. Calls wait without a limit. Default 30 s.
   */
  readonly retryFor?: Duration;
  /**
   * Told once when a tool has no worker, when the server is away for a while, when a worker is connected again
   * after that, and when no streams pass, or pass again. Default `console.warn`.
   */
  readonly onWarning?: (message: string) => void;
}

const OPTIONS: Record<keyof TrunklineOptions, true> = {
  url: true,
  key: true,
  tls: true,
  transport: true,
  retryFor: true,
  onWarning: true,
};

const DEFAULT_RETRY_MS = 30_000;

/**
 * A client of a Trunkline server. Making one connects to nothing yet; its calls share one stream, which
 * reconnects by itself and does not keep the process alive while nothing is waited for.
 */
export class Trunkline {
  /** Declarations of tools. */
  readonly toolsets: Toolsets;
  /** Executions of harnesses, in which calls are opened. */
  readonly runs: Runs;
  /** Runs with tools that a worker decides on. */
  readonly sessions: Sessions;
  /** Calls, from any process. */
  readonly calls: Calls;
  /** Deferred calls, for whoever holds their tokens. */
  readonly tasks: Tasks;
  /** Tokens of end users. */
  readonly tokens: Tokens;
  /** API keys of the project. */
  readonly keys: Keys;
  /** Tenants of the server. */
  readonly projects: Projects;
  readonly #endpoint: Endpoint;
  readonly #unary: Unary;
  readonly #drive: Drive;
  readonly #watching: WatchConnection;
  readonly #onWarning: (message: string) => void;
  readonly #workers = new Set<Worker>();
  #closed = false;

  /**
   * @throws TrunklineError INVALID_FIELD for a URL or key that cannot be one, and an option that does not exist; the
   *   key is not shown
   */
  constructor(options: TrunklineOptions = {}) {
    onlyFields(options, OPTIONS, "options");
    const { retryFor, onWarning = console.warn } = options;
    this.#onWarning = (message) => callUser("onWarning", () => onWarning(`trunkline: ${message}`));
    this.#endpoint = new Endpoint(options, this.#onWarning);
    this.#unary = new Unary(
      this.#endpoint,
      retryFor === undefined ? DEFAULT_RETRY_MS : parseDuration(retryFor, "retryFor"),
      this.#onWarning,
    );
    this.calls = new Calls(this.#unary);
    this.#drive = new Drive(this.#endpoint, {
      warn: this.#onWarning,
      // Whoever aborted does not wait; the run's end cancels it at the latest.
      cancel: (callId) => void this.calls.cancel(callId).catch(() => undefined),
    });
    this.#watching = new WatchConnection(this.#endpoint, this.#onWarning);
    this.runs = new Runs(this.#unary, this.#drive, this.calls, this.#watching);
    this.tasks = new Tasks(this.#unary);
    this.toolsets = new Toolsets(this.#unary);
    this.sessions = new Sessions(this.runs, this.toolsets);
    this.tokens = new Tokens(this.#unary);
    this.keys = new Keys(this.#unary);
    this.projects = new Projects(this.#unary);
  }

  /** The server's address. */
  get url(): string {
    return this.#endpoint.url;
  }

  /**
   * Starts to run tools. The worker goes on until it is stopped, and keeps the process alive.
   *
   * @throws TrunklineError INVALID_FIELD for options that cannot be; CLOSED after `close`
   */
  worker(options: WorkerOptions): Worker {
    if (this.#closed) throw new TrunklineError("CLOSED", "the client was closed");
    const worker = new Worker(this.#endpoint, options, this.#onWarning);
    this.#workers.add(worker);
    const forget = (): void => void this.#workers.delete(worker);
    worker.done.then(forget, forget);
    return worker;
  }

  /**
   * Starts to decide calls: a worker with one function for all of its tools, and for the start of sessions. It goes on
   * until it is stopped, and keeps the process alive.
   *
   * @throws TrunklineError INVALID_FIELD for options that cannot be; CLOSED after `close`
   */
  decisions(options: DecisionsOptions): Decisions {
    return new Decisions(options, (carrier) => this.worker(carrier));
  }

  /**
   * Stops this client's workers, which lets their handlers finish, then closes its connections. What is
   * still waited for rejects with a `TrunklineError` CLOSED; the calls themselves go on.
   */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled([...this.#workers].map((worker) => worker.stop()));
    await this.#drive.close();
    this.#watching.close();
    this.#unary.close();
    this.#endpoint.route.close();
  }

  /** Closes the client at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Shows the address, never the key. */
  [inspect.custom](): string {
    return `Trunkline(${this.url})`;
  }
}
