import type { ClientHttp2Session, ClientHttp2Stream, SecureClientSessionOptions } from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import { Http2SessionManager, type Http2SessionOptions } from "@connectrpc/connect-node";

/**
 * What a stream, and a connection, may be sent before it is read: some of the largest payloads. HTTP/2's own 64 KiB are
 * sixteen round trips for one of those, and a server sends no more claims where too much is unread.
 */
const STREAM_WINDOW_BYTES = 4 * 1024 * 1024;
const CONNECTION_WINDOW_BYTES = 8 * 1024 * 1024;

/**
 * Listens to its connections' errors for as long as they live. connect-node's own manager stops listening to a
 * connection that it lets go; one that is being destroyed then, because the other side broke the protocol, emits its
 * error a moment later, and an `error` that nobody listens to ends the process.
 */
export class QuietSession extends Http2SessionManager {
  readonly #heard = new WeakSet<ClientHttp2Session>();

  constructor(
    url: string,
    pings: Http2SessionOptions | undefined,
    tls: SecureClientSessionOptions | undefined,
  ) {
    super(url, pings, { ...tls, settings: { ...tls?.settings, initialWindowSize: STREAM_WINDOW_BYTES } });
  }

  override async request(
    ...parameters: Parameters<Http2SessionManager["request"]>
  ): Promise<ClientHttp2Stream> {
    const stream = await super.request(...parameters);
    const connection = connectionOf(stream);
    if (connection !== undefined && !this.#heard.has(connection)) {
      this.#heard.add(connection);
      // The streams on it fail with the same error, and say so.
      connection.on("error", () => undefined);
      if (!connection.destroyed) connection.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    }
    failWhenReset(stream);
    return stream;
  }
}

/**
 * Makes an error of a stream that ends without an answer. Some proxies that go down reset what is under way with
 * NO_ERROR, which Node and connect-node take for an end in order: nothing would settle the request.
 */
function failWhenReset(stream: ClientHttp2Stream): void {
  let answered = false;
  stream.once("response", () => {
    answered = true;
  });
  stream.once("close", () => {
    // Without a listener the event would end the process.
    if (answered || stream.listenerCount("error") === 0) return;
    const reset = new Error("the stream was reset before its answer");
    stream.emit("error", Object.assign(reset, { code: "ECONNRESET" }));
  });
}

/** As {@link QuietSession}, for one stream. Knows the connection below its stream, which connect-node's own manager does not show. */
export class StreamSession extends QuietSession {
  #connection: ClientHttp2Session | undefined;
  #keepAlive = true;
  #dropped = false;

  override async request(
    ...parameters: Parameters<Http2SessionManager["request"]>
  ): Promise<ClientHttp2Stream> {
    // A stream whose key came too late would connect anew.
    if (this.#dropped) throw new ConnectError("the connection was dropped", Code.Canceled);
    const stream = await super.request(...parameters);
    this.#connection = connectionOf(stream);
    this.#apply();
    return stream;
  }

  override abort(reason?: Error): void {
    this.#dropped = true;
    super.abort(reason);
  }

  keepAlive(on: boolean): void {
    if (this.#keepAlive === on) return;
    this.#keepAlive = on;
    this.#apply();
  }

  #apply(): void {
    if (this.#connection === undefined || this.#connection.destroyed) return;
    if (this.#keepAlive) this.#connection.ref();
    else this.#connection.unref();
  }
}

/** Node's types leave out that a client's stream has a client's session. */
function connectionOf(stream: ClientHttp2Stream): ClientHttp2Session | undefined {
  return stream.session as ClientHttp2Session | undefined;
}
