import { checkSignal, onlyFields, oneOf, refuseArgument } from "../argument.js";
import type { Call, CallState } from "../call.js";
import { mayPass, TrunklineError } from "../errors.js";
import { checkKey, type KeySource } from "../key-source.js";
import { checkUrl } from "../server-url.js";
import { readSettlement, type Settlement } from "../settlement.js";
import { present } from "../text.js";
import { callUser } from "../user-callback.js";
import { watchRun, type RunEvent, type WatchOptions } from "../watch.js";
import { readState } from "./call-json.js";
import { ConnectJson } from "./connect-json.js";
import { OpenCalls } from "./open-calls.js";
import { Pace } from "./pace.js";
import { errorFromProblemJson } from "./problem-json.js";
import { Requests } from "./requests.js";
import { BrowserWatchPort, type Way } from "./watch-port.js";

/** How a page reaches its server. */
export interface BrowserOptions {
  /** `https://HOST`, with a path where a proxy has one; what is no full address counts from the page's own. */
  readonly url: string;
  /**
   * An end user's token, which `client.tokens.create` makes, or a function that gives one. A function is asked before
   * each request, so keep what it gives for a while there; where the server refuses that, it is asked once more. Leave
   * it out for a server without keys.
   */
  readonly token?: KeySource;
  /**
   * `stream`: a run that is watched has a stream of its own. `poll`: there is one request at a time. Over HTTP/1.1 a
   * browser has six connections to a server for all of its tabs, which streams soon use up, and over HTTP/2 as many as
   * are wanted. Default `auto`: `stream` for https://, `poll` for http://, over which browsers speak HTTP/1.1 alone.
   */
  readonly transport?: "auto" | Way;
  /** Told once when the server is away for a while. Default `console.warn`. */
  readonly onWarning?: (message: string) => void;
}

/** Which open calls are wanted. */
export interface OpenCallsOptions {
  /** Only calls of this run. Default: those of every run of the token's end user. */
  readonly run?: string;
  /** Aborting it ends the iteration with the signal's reason. */
  readonly signal?: AbortSignal;
}

const OPTIONS: Record<keyof BrowserOptions, true> = {
  url: true,
  token: true,
  transport: true,
  onWarning: true,
};
const OPEN_CALLS_OPTIONS: Record<keyof OpenCallsOptions, true> = { run: true, signal: true };
const WAYS = { auto: "auto", stream: "stream", poll: "poll" } as const;

const RETRY_MS = 30_000;
/** How often `settle` looks for the last attempt when there is another under its hands. */
const SETTLE_ROUNDS = 5;

/** A client of a Trunkline server in a page, for one end user. Make it with {@link connectTrunkline}. */
export class BrowserClient {
  readonly #requests: Requests;
  readonly #pace: Pace;
  readonly #way: Way;
  readonly #watch: BrowserWatchPort;

  /** Use {@link connectTrunkline}. The pace is given by tests only. */
  constructor(options: BrowserOptions, pace = new Pace()) {
    onlyFields(options, OPTIONS, "options");
    this.#pace = pace;
    const { token, transport = "auto", onWarning = console.warn } = options;
    const url = checkUrl(fromPage(present(options.url, "url")), "token");
    const rpc = new ConnectJson(url, token === undefined ? undefined : checkKey(token, "token"));
    const warn = (message: string): void => callUser("onWarning", () => onWarning(`trunkline: ${message}`));
    this.#requests = new Requests(rpc, typeof token === "function", warn);
    const way = oneOf(WAYS, transport, "transport");
    this.#way = way === "auto" ? (url.startsWith("https:") ? "stream" : "poll") : way;
    this.#watch = new BrowserWatchPort(this.#requests, this.#way);
  }

  /** The server's address. */
  get url(): string {
    return this.#requests.rpc.url;
  }

  /**
   * The calls that wait to be settled by their end user's side (executor `client`), with their input, the oldest
   * first: the whole list at once, and again whenever it has changed. It goes on over outages until it is left, or
   * until the given run has ended.
   *
   * It looks every 2 s, every 30 s while the page is hidden, and at once when it shows again and after `settle`. Where
   * streams are used (see `transport`), changes of a given run come as they happen.
   *
   * @throws TrunklineError INVALID_FIELD for options that cannot be; while iterating UNAUTHENTICATED,
   *   PERMISSION_DENIED, NOT_FOUND for a run that is not there
   */
  openCalls(options: OpenCallsOptions = {}): AsyncIterable<readonly Call[]> {
    onlyFields(options, OPEN_CALLS_OPTIONS, "options");
    const { run, signal } = options;
    checkSignal(signal);
    const wanted = { run: run === undefined ? "" : present(run, "run"), signal };
    const watch = this.#way === "stream" && wanted.run !== "" ? this.#watch : undefined;
    return new OpenCalls(this.#requests, this.#pace, watch, wanted);
  }

  /**
   * Ends a call, or its last attempt; says in which state it is now. The same again changes nothing, so what a cut
   * interrupts is sent again, for at most 30 s. Given a call of {@link openCalls}, it settles the attempt that was
   * seen; given an id alone, and no `attempt`, the last one, which is read first.
   *
   * @throws TrunklineError STALE_ATTEMPT, CALL_ENDED, NOT_FOUND; INVALID_FIELD, INVALID_JSON, LIMIT_EXCEEDED,
   *   SCHEMA_VIOLATION for what cannot be its result
   */
  async settle(call: Call | string, settlement: Settlement): Promise<CallState> {
    const outcome = readSettlement(settlement);
    const wire = outcome.case === "failure" ? { failure: outcome.value } : { resultJson: outcome.value };
    const [callId, seen] = typeof call === "object" ? [call.id, call.attempt] : [call, undefined];
    const ref = { callId: present(callId, "call") };
    const given = settlement.attempt ?? seen;
    try {
      for (let round = 1; ; round++) {
        const attempt = given ?? (await this.#attemptOf(ref));
        let sends = 0;
        const { error, state } = await this.#send(async (rpc) => {
          sends++;
          const items = [{ call: ref, attempt, settlement: wire }];
          const { results = [] } = await rpc.unary("CallService/SettleCalls", { items }, undefined);
          const { problem, state } = results[0] ?? {};
          const error = problem && errorFromProblemJson(problem);
          if (error !== undefined && mayPass(error)) throw error;
          return { error, state: readState(state) };
        });
        if (error === undefined) return state;
        // Another attempt began between the look and the send, and nothing else was sent: look again.
        const moved = error.reason === "STALE_ATTEMPT" && given === undefined && sends === 1;
        if (!moved || round === SETTLE_ROUNDS) throw error;
      }
    } finally {
      this.#pace.wake();
    }
  }

  /**
   * What becomes of a run and its calls, as they stand, from the beginning or from the `cursor` of an event on; keep
   * that (in `sessionStorage`, say) to go on after a reload. It goes on over outages, and ends when the run has ended
   * and so have its calls.
   *
   * @throws TrunklineError INVALID_FIELD for options that cannot be; while iterating UNAUTHENTICATED,
   *   PERMISSION_DENIED, NOT_FOUND
   */
  watchRun(run: string, options: WatchOptions = {}): AsyncIterable<RunEvent> {
    return watchRun(this.#watch, present(run, "run"), options);
  }

  async #attemptOf(call: { readonly callId: string }): Promise<number> {
    const answer = await this.#send((rpc) => rpc.unary("CallService/GetCall", { call }, undefined));
    if (answer.call === undefined) throw new TrunklineError("NOT_FOUND", "call: the answer was empty");
    return answer.call.attempt ?? 0;
  }

  #send<T>(request: (rpc: ConnectJson) => Promise<T>): Promise<T> {
    return this.#requests.send(request, { signal: undefined, retryForMs: RETRY_MS });
  }
}

/**
 * Connects a page to a Trunkline server, for one end user: sees the calls that wait for it, settles them, watches runs.
 * Nothing is sent yet. The server must allow the page's origin (`--cors-origin`).
 *
 * @throws TrunklineError INVALID_FIELD for options that cannot be; the token is not shown
 */
export function connectTrunkline(options: BrowserOptions): BrowserClient {
  return new BrowserClient(options);
}

/** A full address, where the page has one to count from. */
function fromPage(url: string): string {
  const { location } = globalThis;
  const base = typeof location === "object" ? location.href : undefined;
  if (!URL.canParse(url, base))
    throw refuseArgument("url", `${JSON.stringify(url)} is not a URL`, ALLOWED_URL);
  return new URL(url, base).href;
}

const ALLOWED_URL = "allowed is https://HOST, or a path on the page's own host";
