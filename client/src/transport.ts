import type { SecureClientSessionOptions } from "node:http2";
import { inspect } from "node:util";
import { createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, type Http2SessionManager } from "@connectrpc/connect-node";
import { Health, HealthCheckResponse_ServingStatus as Serving } from "@trunkline/proto/health";
import { authorize } from "./credential.js";
import { TrunklineError } from "./errors.js";
import { QuietSession, StreamSession } from "./http2-session.js";
import { checkKey, type KeySource } from "./key-source.js";
import { plainConnection } from "./plain-connection.js";
import { checkMode, Route, type Patience, type TransportMode } from "./route.js";
import { checkUrl, DEFAULT_URL } from "./server-url.js";

/** How the server is reached. */
export interface EndpointOptions {
  /** `http://` (h2c) or `https://`, host and port. Default: `TRUNKLINE_URL`, else http://127.0.0.1:7788. */
  readonly url?: string | undefined;
  /**
   * An API key or an end user's token. Default: `TRUNKLINE_KEY`, else none. It is never shown.
   *
   * A function is asked for it before each request and each stream, so that tokens may be short-lived; keep what it
   * gives for a while there. Where the server refuses that, the function is asked once more. What it throws counts as
   * an outage, after which it is asked again, unless it is a `TrunklineError` UNAUTHENTICATED or PERMISSION_DENIED.
   */
  readonly key?: KeySource | undefined;
  /** For `https://`: a private CA, a client certificate. Default: what Node trusts. */
  readonly tls?: SecureClientSessionOptions | undefined;
  /**
   * `stream`: over HTTP/2 in streams, the fast way. `poll`: by single requests over HTTP/1.1, where nothing else
   * passes. `auto`: in streams, and by requests for as long as no stream passes though requests do. Default `auto`.
   */
  readonly transport?: TransportMode | undefined;
}

/** One connection, or several that serve as one. */
export interface Connection {
  readonly transport: Transport;
  /** Ends it at once, black hole or not. */
  abort(): void;
}

/** One TCP connection for one stream, so that dropping it drops nothing else. It tells how far it came. */
export interface StreamConnection extends Connection {
  /** Whether the connection keeps the process alive. */
  keepAlive(on: boolean): void;
  /** How long the stream may take to its welcome, in milliseconds. */
  readonly welcomeMs: number;
  /** The stream was welcomed. */
  welcomed(): void;
  /** The stream ended without a welcome; the cause is undefined when it ended in order. */
  refused(cause: unknown): void;
}

/** How long an answer to a probe may take. */
const PROBE_MS = 5_000;

/** Pings find a dead connection below unary calls; each hop answers them by itself. */
const PING_INTERVAL_MS = 20_000;
const PING_TIMEOUT_MS = 5_000;

/** A server's address and credential. The credential is in no property, so that no log can show it. */
export class Endpoint {
  /** Without credentials; safe to show. */
  readonly url: string;
  /** By which way it is reached. */
  readonly route: Route;
  /** Whether there is another key to be had where one is refused. */
  readonly renewsKey: boolean;
  readonly #interceptors: Interceptor[];
  readonly #tls: SecureClientSessionOptions | undefined;

  /**
   * @param warn told when the way to the server changes
   * @param patience given by tests only
   */
  constructor(
    options: EndpointOptions,
    warn: (message: string) => void = () => undefined,
    patience: Patience = {},
  ) {
    this.url = checkUrl(options.url ?? fromEnvironment("TRUNKLINE_URL") ?? DEFAULT_URL, "key");
    const key = options.key ?? fromEnvironment("TRUNKLINE_KEY");
    this.#interceptors = key === undefined ? [] : [authorize(checkKey(key, "key"))];
    this.renewsKey = typeof key === "function";
    this.#tls = options.tls;
    this.route = new Route({
      mode: checkMode(options.transport),
      url: this.url,
      probe: () => this.#probe(),
      probeStream: () => this.#probeStream(),
      warn,
      patience,
    });
  }

  /** A connection of its own for one stream; it is made when the stream opens. */
  connect(): StreamConnection {
    const session = new StreamSession(this.url, undefined, this.#tls);
    const { route } = this;
    const begunAt = performance.now();
    return {
      transport: this.#transport(session),
      welcomeMs: route.welcomeMs,
      welcomed: () => route.passed("stream"),
      refused: (cause) => route.failed("stream", cause, begunAt),
      abort: () => session.abort(),
      keepAlive: (on) => session.keepAlive(on),
    };
  }

  /** A connection that unary calls share; it does not keep the process alive between them. */
  shared(): Connection {
    const pings = { pingIntervalMs: PING_INTERVAL_MS, pingTimeoutMs: PING_TIMEOUT_MS };
    const session = new QuietSession(this.url, pings, this.#tls);
    return { transport: this.#transport(session), abort: () => session.abort() };
  }

  /** Connections for single requests over HTTP/1.1. */
  plain(): Connection {
    return plainConnection(this.url, this.#interceptors, this.#tls);
  }

  /** Whether a single request gets to a server that serves; rejects when not. */
  async #probe(): Promise<void> {
    const connection = this.plain();
    try {
      const health = createClient(Health, connection.transport);
      const { status } = await health.check({}, { timeoutMs: PROBE_MS });
      if (status !== Serving.SERVING) throw notServing();
    } finally {
      connection.abort();
    }
  }

  /** Whether anything of a stream comes back while it is open; rejects when not. */
  async #probeStream(): Promise<void> {
    const session = new StreamSession(this.url, undefined, this.#tls);
    session.keepAlive(false);
    try {
      const health = createClient(Health, this.#transport(session));
      for await (const { status } of health.watch({}, { timeoutMs: PROBE_MS })) {
        if (status === Serving.SERVING) return;
        break;
      }
      throw notServing();
    } finally {
      session.abort();
    }
  }

  #transport(sessionManager: Http2SessionManager): Transport {
    return createGrpcTransport({
      baseUrl: this.url,
      sessionManager,
      interceptors: this.#interceptors,
      // Payloads are small and the link is usually near: compressing costs more than it saves.
      acceptCompression: [],
    });
  }

  [inspect.custom](): string {
    return `Endpoint(${this.url})`;
  }
}

function notServing(): TrunklineError {
  return new TrunklineError("UNAVAILABLE", "the server does not serve");
}

/** An empty variable is how a shell says "none". */
function fromEnvironment(name: string): string | undefined {
  const value = process.env[name];
  return value === "" ? undefined : value;
}
