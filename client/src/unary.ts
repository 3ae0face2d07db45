import type { CallOptions } from "@connectrpc/connect";
import { Code, ConnectError, createClient, type Client, type Transport } from "@connectrpc/connect";
import { AdminService } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { RunService } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { abortReason, onAbort, pause } from "./abort.js";
import { checkSignal } from "./argument.js";
import { formatDuration } from "./duration.js";
import { isRefusedCredential, TrunklineError } from "./errors.js";
import { errorFromRpc, isTransient } from "./problem.js";
import { Backoff, TROUBLE_MS } from "./reconnect.js";
import { Refusals } from "./refusals.js";
import type { Way } from "./route.js";
import type { Endpoint } from "./transport.js";

/** How long one try may take beside what it waits for on purpose. */
const TRY_MS = 15_000;

/** How one request behaves. */
export interface RequestOptions {
  /** Aborts the request; it then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** How long the server waits on purpose, in milliseconds. */
  readonly waitMs?: number;
  /** How long to try again, in milliseconds. Default: the client's. */
  readonly retryForMs?: number;
}

/** The services, by one transport. */
interface Clients {
  readonly admin: Client<typeof AdminService>;
  readonly calls: Client<typeof CallService>;
  readonly runs: Client<typeof RunService>;
  readonly tasks: Client<typeof TaskService>;
  readonly toolsets: Client<typeof ToolsetService>;
}

/** One request, to be sent with these options. */
export type Request<T> = (options: CallOptions) => Promise<T>;

/**
 * The unary RPCs, over one shared connection, or by HTTP/1.1 where that is the way. Every one of them is safe to
 * repeat, so what a cut or a restart interrupts is sent again, with back-off, for a bounded time.
 */
export class Unary {
  readonly #endpoint: Endpoint;
  readonly #connections: Readonly<Record<Way, { abort(): void }>>;
  readonly #clients: Readonly<Record<Way, Clients>>;
  readonly #retryForMs: number;
  readonly #warn: (message: string) => void;
  /** Whether the outage that lasts has been told of. */
  #told = false;
  readonly #closing = new AbortController();

  /**
   * @param retryForMs how long to try again, in milliseconds
   * @param warn told once per outage, when it has lasted a while
   */
  constructor(endpoint: Endpoint, retryForMs: number, warn: (message: string) => void) {
    this.#endpoint = endpoint;
    this.#retryForMs = retryForMs;
    this.#warn = warn;
    const [stream, poll] = [endpoint.shared(), endpoint.plain()];
    this.#connections = { stream, poll };
    this.#clients = { stream: clientsOf(stream.transport), poll: clientsOf(poll.transport) };
  }

  get admin(): Client<typeof AdminService> {
    return this.#clients[this.#endpoint.route.way].admin;
  }

  get calls(): Client<typeof CallService> {
    return this.#clients[this.#endpoint.route.way].calls;
  }

  get runs(): Client<typeof RunService> {
    return this.#clients[this.#endpoint.route.way].runs;
  }

  get tasks(): Client<typeof TaskService> {
    return this.#clients[this.#endpoint.route.way].tasks;
  }

  get toolsets(): Client<typeof ToolsetService> {
    return this.#clients[this.#endpoint.route.way].toolsets;
  }

  /**
   * Sends a request until it is answered.
   *
   * @throws TrunklineError what the server said; UNAVAILABLE when it could not be reached for that long; CLOSED
   *   when it is closed, or was
   */
  async send<T>(request: Request<T>, options: RequestOptions = {}): Promise<T> {
    const { signal } = options;
    checkSignal(signal);
    if (signal === undefined) return this.#send(request, options);
    // Of its own: every request listens to its signal, and Node warns of a leak when many listen to one.
    const own = new AbortController();
    const forget = onAbort(signal, () => own.abort(abortReason(signal)));
    try {
      return await this.#send(request, { ...options, signal: own.signal });
    } finally {
      forget();
    }
  }

  async #send<T>(request: Request<T>, options: RequestOptions): Promise<T> {
    const { signal, waitMs = 0, retryForMs = this.#retryForMs } = options;
    const backoff = new Backoff();
    const giveUpAt = performance.now() + retryForMs;
    const callOptions: CallOptions = { timeoutMs: TRY_MS + waitMs, ...(signal && { signal }) };
    const closing = this.#closing.signal;
    const { route, url, renewsKey } = this.#endpoint;
    const refusals = new Refusals(renewsKey);
    for (;;) {
      closing.throwIfAborted();
      const [way, begunAt] = [route.way, performance.now()];
      try {
        const answer = await request(callOptions);
        if (way === "stream") route.passed("request");
        this.#told = false;
        return answer;
      } catch (thrown) {
        if (signal?.aborted) throw abortReason(signal);
        closing.throwIfAborted();
        // One that takes too long tells nothing of the way.
        if (way === "stream" && ConnectError.from(thrown).code !== Code.DeadlineExceeded)
          route.failed("request", thrown, begunAt);
        const error = errorFromRpc(thrown, url);
        if (isRefusedCredential(error) && !refusals.isFinal(error)) continue;
        const transient = isTransient(thrown);
        if (!transient) this.#told = false;
        const pauseMs = error.retryAfterMs ?? backoff.next();
        if (!transient || performance.now() + pauseMs > giveUpAt) throw error;
        if (backoff.outageMs() >= TROUBLE_MS) this.#tell(error, retryForMs);
        await pause(pauseMs, signal, closing);
      }
    }
  }

  #tell(error: TrunklineError, retryForMs: number): void {
    if (this.#told) return;
    this.#told = true;
    const goesOn =
      retryForMs === Infinity ? "it keeps trying" : `trying again for ${formatDuration(retryForMs)}`;
    this.#warn(`${error.message}; ${goesOn}`);
  }

  /** Ends the connection, and rejects what is under way on it and what is to come. */
  close(): void {
    this.#closing.abort(new TrunklineError("CLOSED", "the client was closed"));
    for (const connection of Object.values(this.#connections)) connection.abort();
  }
}

function clientsOf(transport: Transport): Clients {
  return {
    admin: createClient(AdminService, transport),
    calls: createClient(CallService, transport),
    runs: createClient(RunService, transport),
    tasks: createClient(TaskService, transport),
    toolsets: createClient(ToolsetService, transport),
  };
}
