import type {
  GetCallRequestJson,
  GetCallResponseJson,
  ListCallsRequestJson,
  ListCallsResponseJson,
  SettleCallsRequestJson,
  SettleCallsResponseJson,
} from "@trunkline/proto/call";
import type {
  GetRunRequestJson,
  GetRunResponseJson,
  WatchRunRequestJson,
  WatchRunResponseJson,
} from "@trunkline/proto/run";
import { abortReason, onAbort } from "../abort.js";
import { TrunklineError } from "../errors.js";
import { askKey, type KeySource } from "../key-source.js";
import { EnvelopeReader } from "./envelope-reader.js";
import { errorFromConnectJson, errorFromStatus } from "./problem-json.js";

/** Request and answer of each unary RPC that a page uses. */
interface Unary {
  "CallService/GetCall": [GetCallRequestJson, GetCallResponseJson];
  "CallService/ListCalls": [ListCallsRequestJson, ListCallsResponseJson];
  "CallService/SettleCalls": [SettleCallsRequestJson, SettleCallsResponseJson];
  "RunService/GetRun": [GetRunRequestJson, GetRunResponseJson];
}

/** Request and response of each server stream that a page uses. */
interface Streams {
  "RunService/WatchRun": [WatchRunRequestJson, WatchRunResponseJson];
}

const PACKAGE = "trunkline.v1";
const UNARY_TYPE = "application/json";
const STREAM_TYPE = "application/connect+json";
/** How long an answer may take. */
const UNARY_MS = 15_000;

const COMPRESSED_FLAG = 1;
const END_FLAG = 2;

/**
 * Speaks Connect, as JSON, by the browser's own `fetch`. Connect's own library is not used: with the runtime for
 * messages that it needs it is larger than the browser's entry may be.
 */
export class ConnectJson {
  readonly url: string;
  readonly #token: KeySource | undefined;

  /** @param url the server's, without a slash at its end */
  constructor(url: string, token: KeySource | undefined) {
    this.url = url;
    this.#token = token;
  }

  /**
   * Sends one request.
   *
   * @throws TrunklineError what the server said; UNAVAILABLE when nothing came of it. The signal's reason
   */
  async unary<Name extends keyof Unary>(
    name: Name,
    request: Unary[Name][0],
    signal: AbortSignal | undefined,
  ): Promise<Unary[Name][1]> {
    const own = new AbortController();
    const forget = signal && onAbort(signal, () => own.abort(abortReason(signal)));
    const late = new TrunklineError("UNAVAILABLE", `no answer from ${this.url} within ${UNARY_MS} ms`);
    const timer = setTimeout(() => own.abort(late), UNARY_MS);
    try {
      const response = await this.#fetch(name, UNARY_TYPE, JSON.stringify(request), own.signal);
      const answer: unknown = await response.json();
      // An answer in JSON is as the server's definition has it.
      return answer as Unary[Name][1];
    } catch (thrown) {
      throw this.#explain(thrown, own.signal);
    } finally {
      clearTimeout(timer);
      forget?.();
    }
  }

  /** Opens a server stream, which ends when the server ends it in order. It throws as {@link unary} does. */
  async *stream<Name extends keyof Streams>(
    name: Name,
    request: Streams[Name][0],
    signal: AbortSignal,
  ): AsyncGenerator<Streams[Name][1], void, undefined> {
    const own = new AbortController();
    const forget = onAbort(signal, () => own.abort(abortReason(signal)));
    try {
      const response = await this.#fetch(name, STREAM_TYPE, enveloped(JSON.stringify(request)), own.signal);
      if (response.body === null) throw this.#cut("the answer is empty");
      const envelopes = new EnvelopeReader(response.body);
      for (;;) {
        const envelope = await envelopes.next();
        if (envelope === undefined) throw this.#cut("the stream broke off");
        if ((envelope.flags & COMPRESSED_FLAG) !== 0) throw this.#cut("a message is compressed");
        const message: unknown = JSON.parse(envelope.text);
        if ((envelope.flags & END_FLAG) !== 0) {
          this.#checkEnd(message);
          return;
        }
        // A message in JSON is as the server's definition has it.
        yield message as Streams[Name][1];
      }
    } catch (thrown) {
      throw this.#explain(thrown, own.signal);
    } finally {
      forget();
      own.abort();
    }
  }

  /** Resolves to an answer whose body is as was asked for. */
  async #fetch(
    name: string,
    type: string,
    body: string | Uint8Array<ArrayBuffer>,
    signal: AbortSignal,
  ): Promise<Response> {
    const headers: Record<string, string> = { "content-type": type, "connect-protocol-version": "1" };
    const token = this.#token === undefined ? undefined : await askKey(this.#token, "token", signal);
    if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
    const response = await fetch(`${this.url}/${PACKAGE}.${name}`, {
      method: "POST",
      ...{ headers, body, signal },
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
    const given = response.headers.get("content-type") ?? "";
    if (response.ok && given.startsWith(type)) return response;
    if (response.ok) throw this.#cut("it does not speak as a Trunkline server does; is it one?");
    if (!given.startsWith(UNARY_TYPE)) throw errorFromStatus(response.status, this.url);
    throw this.#errorOf(await response.json());
  }

  #checkEnd(end: unknown): void {
    if (typeof end === "object" && end !== null && "error" in end) throw this.#errorOf(end.error);
  }

  #errorOf(error: unknown): TrunklineError {
    return errorFromConnectJson(typeof error === "object" && error !== null ? error : {}, this.url);
  }

  #cut(why: string): TrunklineError {
    return new TrunklineError("UNAVAILABLE", `no answer from ${this.url}: ${why}`);
  }

  #explain(thrown: unknown, signal: AbortSignal): Error {
    if (signal.aborted) return abortReason(signal);
    if (thrown instanceof TrunklineError) return thrown;
    // A browser does not tell a page why: no network, no server, or no leave for the page's origin.
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    return this.#cut(`${why}${originHint()}`);
  }
}

function enveloped(text: string): Uint8Array<ArrayBuffer> {
  const body = new TextEncoder().encode(text);
  const bytes = new Uint8Array(5 + body.length);
  new DataView(bytes.buffer).setUint32(1, body.length);
  bytes.set(body, 5);
  return bytes;
}

function originHint(): string {
  const { location } = globalThis;
  return typeof location === "object" ? ` (does its --cors-origin name ${location.origin}?)` : "";
}
