import { oneOf } from "./argument.js";
import { formatDuration } from "./duration.js";
import { isServersWord, isTransient } from "./problem.js";

/**
 * How a client speaks to its server. `stream`: over HTTP/2, in streams. `poll`: by single requests over HTTP/1.1,
 * for networks that carry nothing else. `auto`: in streams, and by requests for as long as no stream passes.
 */
export type TransportMode = "auto" | "stream" | "poll";

const MODES: Readonly<Record<TransportMode, TransportMode>> = {
  auto: "auto",
  stream: "stream",
  poll: "poll",
};

/** The way that is taken now. */
export type Way = "stream" | "poll";

/** What a {@link Route} is given. */
export interface RouteOptions {
  readonly mode: TransportMode;
  readonly url: string;
  /** Sends one request by single requests' way; resolves when the server answered. */
  readonly probe: () => Promise<void>;
  /** Opens a stream that nothing depends on; resolves when its first message has come. */
  readonly probeStream: () => Promise<void>;
  /** Told when the way changes. */
  readonly warn: (message: string) => void;
  readonly patience?: Patience;
}

/** How long a {@link Route} waits, in milliseconds. */
export interface Patience {
  /** For a stream's welcome. Default 10 s, and 5 s until one has passed, where something else can be tried. */
  readonly welcomeMs?: number;
  /** Before a stream is tried again, while requests carry on; up to a quarter is added. Default 5 min. */
  readonly retryMs?: number;
}

/** What fails or passes: a stream up to its welcome, or a single request over HTTP/2. */
export type Attempt = "stream" | "request";

/** Failures in a row of one kind of attempt. */
interface Failures {
  count: number;
  /** When the server answered a probe since the last of them; -Infinity when it has not. */
  reachedAt: number;
}

/**
 * So many attempts of a kind in a row have to fail, each begun after the server had just answered a request: a server
 * that is away, or comes back, answers none, or takes the next stream.
 */
const FAILURES = 3;
/** The same where streams have passed before: nodes may be replaced one by one behind a balancer. */
const FAILURES_AFTER_STREAMS = 6;
const WELCOME_MS = 10_000;
const FIRST_WELCOME_MS = 5_000;
const RETRY_MS = 5 * 60_000;
const RETRY_JITTER = 0.25;

/** Chooses, for all that one client does, between streams and single requests. */
export class Route {
  readonly #options: RouteOptions;
  readonly #onRetry = new Set<() => void>();
  #way: Way;
  /** Whether a stream was ever welcomed. */
  #proven = false;
  readonly #failures: Readonly<Record<Attempt, Failures>> = {
    stream: { count: 0, reachedAt: -Infinity },
    request: { count: 0, reachedAt: -Infinity },
  };
  #probing = false;
  /** Whether a stream is being tried while requests carry on. */
  #retrying = false;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: RouteOptions) {
    this.#options = options;
    this.#way = options.mode === "poll" ? "poll" : "stream";
  }

  /** What single requests go by. */
  get way(): Way {
    return this.#way;
  }

  /** What whoever opens the next stream is to open. */
  get next(): Way {
    return this.#retrying ? "stream" : this.#way;
  }

  /** How long a stream may take to its welcome, in milliseconds. */
  get welcomeMs(): number {
    const { mode, patience } = this.#options;
    const usual = mode === "auto" && !this.#proven ? FIRST_WELCOME_MS : WELCOME_MS;
    return patience?.welcomeMs ?? usual;
  }

  /** Calls `retry` when whoever works by requests is to try a stream beside them; gives what ends that. */
  onRetry(retry: () => void): () => void {
    this.#onRetry.add(retry);
    return () => this.#onRetry.delete(retry);
  }

  /** A stream was welcomed, or a request answered over HTTP/2. */
  passed(attempt: Attempt): void {
    this.#failures.request.count = 0;
    if (attempt === "request") return;
    this.#failures.stream.count = 0;
    this.#proven = true;
    if (this.#options.mode !== "auto" || this.#way === "stream") return;
    this.#way = "stream";
    this.#retrying = false;
    clearTimeout(this.#timer);
    this.#options.warn(`streams pass to ${this.#options.url} again`);
    this.#tryStreams();
  }

  /**
   * A stream ended before its welcome, or a request over HTTP/2 failed.
   *
   * @param cause undefined when it ended in order
   * @param begunAt when it was begun, by `performance.now()`
   */
  failed(attempt: Attempt, cause: unknown, begunAt: number): void {
    if (this.#options.mode !== "auto" || this.#closed) return;
    if (cause !== undefined && (!isTransient(cause) || isServersWord(cause))) return;
    if (this.#way === "poll") {
      if (attempt === "stream" && this.#retrying) this.#retryLater();
      return;
    }
    // Of those that go back to streams, one may have to try again.
    if (attempt === "stream" && this.#proven) this.#retryLater();
    const failures = this.#failures[attempt];
    // Begun before the server was there, it proves nothing.
    if (failures.count > 0 && begunAt < failures.reachedAt) return;
    if (failures.count === 0 || failures.reachedAt > -Infinity) failures.count++;
    failures.reachedAt = -Infinity;
    if (failures.count >= (this.#proven ? FAILURES_AFTER_STREAMS : FAILURES)) this.#fallBack(cause);
    else void this.#probe();
  }

  /** Leaves no timer behind. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#onRetry.clear();
  }

  async #probe(): Promise<void> {
    if (this.#probing) return;
    this.#probing = true;
    const { stream, request } = this.#failures;
    try {
      await this.#options.probe();
      stream.reachedAt = request.reachedAt = performance.now();
    } catch {
      // Nothing gets there.
      stream.count = request.count = 0;
    } finally {
      this.#probing = false;
    }
  }

  #fallBack(cause: unknown): void {
    const { url, warn } = this.#options;
    this.#way = "poll";
    this.#failures.stream.count = this.#failures.request.count = 0;
    this.#retryLater();
    const why = cause instanceof Error ? cause.message : "they end without a word";
    warn(
      `no stream passes to ${url}, though single requests do (${why}); working by requests over HTTP/1.1, ` +
        `and trying a stream again in ${formatDuration(this.#retryMs)}`,
    );
  }

  #tryStreams(): void {
    for (const retry of [...this.#onRetry]) retry();
  }

  get #retryMs(): number {
    return this.#options.patience?.retryMs ?? RETRY_MS;
  }

  #retryLater(): void {
    this.#retrying = false;
    clearTimeout(this.#timer);
    const ms = this.#retryMs * (1 + RETRY_JITTER * Math.random());
    this.#timer = setTimeout(() => void this.#retry(), ms);
    this.#timer.unref();
  }

  /** A worker's hello takes its session along, also where a proxy keeps the welcome back: another stream goes before. */
  async #retry(): Promise<void> {
    const passes = await this.#options.probeStream().then(
      () => true,
      () => false,
    );
    if (this.#closed) return;
    if (!passes) {
      this.#retryLater();
      return;
    }
    this.#retrying = this.#way === "poll";
    this.#tryStreams();
  }
}

/**
 * Checks what a caller gives as `transport`.
 *
 * @throws TrunklineError INVALID_FIELD
 */
export function checkMode(mode: TransportMode = "auto"): TransportMode {
  return oneOf(MODES, mode, "transport");
}
