import { randomBytes } from "node:crypto";
import { onlyFields } from "./argument.js";
import { parseDuration, type Duration } from "./duration.js";
import { TrunklineError } from "./errors.js";
import type { HeldClaim } from "./held-claim.js";
import { toJson } from "./json.js";
import { LIMITS } from "./limits.js";

/** Bytes of a token's secret: 256 bits. */
const SECRET_BYTES = 32;

/** What {@link ToolContext.defer} takes. */
export interface DeferOptions {
  /** How long the answer may take; then the call fails. Default: the policy's defer timeout, else none. */
  readonly timeout?: Duration;
  /** A token of this context's `newToken()`. Default: a new one. */
  readonly token?: string;
}

/** A deferral that the server has stored. */
export interface Deferred {
  /** Whoever has it may answer the call, once, from any process. */
  readonly token: string;
  /** When the deferral times out; undefined when it waits for the run's end. */
  readonly expiresAt: Date | undefined;
  /** Whether the timeout was cut to the run's TTL. */
  readonly cutToRun: boolean;
}

/** What a handler knows about its call, and can do beside returning. Its functions need no `this`. */
export interface ToolContext {
  readonly tool: string;
  /** The end user that the run acts for. */
  readonly namespace: string;
  readonly runId: string;
  /** The call's number in its run, from 1. */
  readonly seq: number;
  /** The call's id, `{runId}/{seq}`: the same on every attempt. Pass it on to whatever must not happen twice. */
  readonly idempotencyKey: string;
  /** From 1. */
  readonly attempt: number;
  /** The run's labels. */
  readonly labels: Readonly<Record<string, string>>;
  /** Aborts when the claim is lost (canceled, timed out, run ended): what is returned then does not count. */
  readonly signal: AbortSignal;
  /** W3C trace context with the call's span as parent; undefined when the caller gave none. */
  readonly traceparent: string | undefined;
  /** When the attempt or the call times out, by this machine's clock; undefined without such a limit. */
  readonly deadline: Date | undefined;
  /** The input as JSON text, digit for digit. */
  readonly inputJson: string;
  /**
   * Sends a sign of life now, with progress for display if given (JSON, at most 64 KiB). Not needed to keep
   * the claim: the SDK does that by itself.
   */
  readonly heartbeat: (progress?: unknown) => void;
  /**
   * Makes a token for {@link defer}, to be stored before anything can go wrong. It is good once `defer` has
   * resolved: publish it only then.
   */
  readonly newToken: () => string;
  /**
   * Hands the call over to whoever holds the token; resolves when the server has stored that. What the
   * handler returns or throws afterwards is no answer. Again, it resolves to the same. Once the handler has
   * ended, it rejects with CLAIM_LOST.
   */
  readonly defer: (options?: DeferOptions) => Promise<Deferred>;
}

/** What a context needs of its session. */
export interface ContextPort {
  heartbeat(held: HeldClaim): void;
  /** Resolves at the acknowledgement; rejects when it is a refusal. */
  defer(held: HeldClaim, secret: string, timeoutMs: number | undefined): Promise<Omit<Deferred, "token">>;
}

const NO_LABELS: Readonly<Record<string, string>> = Object.freeze({});

/** A copy that no handler can change for another. */
function frozen(labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.keys(labels).length === 0 ? NO_LABELS : Object.freeze({ ...labels });
}

/** The {@link ToolContext} of one attempt. */
export class HandlerContext implements ToolContext {
  readonly tool: string;
  readonly namespace: string;
  readonly runId: string;
  readonly seq: number;
  readonly idempotencyKey: string;
  readonly attempt: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly traceparent: string | undefined;
  readonly deadline: Date | undefined;
  readonly inputJson: string;
  readonly #held: HeldClaim;
  readonly #port: ContextPort;
  #tokens: Set<string> | undefined;
  #deferral: { readonly token: string; readonly done: Promise<Deferred> } | undefined;

  constructor(held: HeldClaim, port: ContextPort) {
    const { claim } = held;
    const slash = claim.callId.lastIndexOf("/");
    this.tool = claim.tool;
    this.namespace = claim.namespace;
    this.runId = claim.callId.slice(0, slash);
    this.seq = Number(claim.callId.slice(slash + 1));
    this.idempotencyKey = claim.callId;
    this.attempt = claim.attempt;
    this.labels = frozen(claim.labels);
    this.traceparent = claim.traceparent === "" ? undefined : claim.traceparent;
    this.deadline = held.deadline;
    this.inputJson = claim.inputJson === "" ? "null" : claim.inputJson;
    this.#held = held;
    this.#port = port;
    // Handlers take them apart: `({ email }, { defer })`.
    this.heartbeat = this.heartbeat.bind(this);
    this.newToken = this.newToken.bind(this);
    this.defer = this.defer.bind(this);
  }

  get signal(): AbortSignal {
    return this.#held.signal;
  }

  /** The deferral that the handler asked for, if it did. */
  get deferral(): Promise<Deferred> | undefined {
    return this.#deferral?.done;
  }

  heartbeat(progress?: unknown): void {
    if (progress !== undefined) {
      this.#held.progressJson = toJson(progress, "progress", LIMITS.progressBytes);
      this.#held.progressDue = true;
    }
    this.#port.heartbeat(this.#held);
  }

  newToken(): string {
    const secret = randomBytes(SECRET_BYTES).toString("base64url");
    const token = `${this.idempotencyKey}.${this.attempt}.${secret}`;
    this.#tokens ??= new Set();
    this.#tokens.add(token);
    return token;
  }

  defer(options: DeferOptions = {}): Promise<Deferred> {
    const deferred = this.#defer(options);
    // A handler that does not wait for it must not end the process.
    deferred.catch(() => undefined);
    return deferred;
  }

  async #defer(options: DeferOptions): Promise<Deferred> {
    onlyFields(options, { timeout: true, token: true }, "options");
    const { timeout, token } = options;
    const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout, "timeout");
    if (token !== undefined && this.#tokens?.has(token) !== true) {
      throw new TrunklineError(
        "TOKEN_INVALID",
        "token: allowed is one that newToken() of this context has made",
        { metadata: { field: "token" } },
      );
    }
    if (this.#deferral !== undefined) {
      if (token === undefined || token === this.#deferral.token) return this.#deferral.done;
      throw new TrunklineError("CALL_DEFERRED", "token: the call was deferred before, with another token");
    }
    this.signal.throwIfAborted();
    const given = token ?? this.newToken();
    const secret = given.slice(given.lastIndexOf(".") + 1);
    const done = this.#port
      .defer(this.#held, secret, timeoutMs)
      .then((stored) => ({ token: given, ...stored }));
    this.#deferral = { token: given, done };
    // Refused, it was none: the handler may answer, or defer in another way.
    done.catch(() => {
      this.#deferral = undefined;
    });
    return done;
  }
}
