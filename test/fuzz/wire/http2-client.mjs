import { connect, constants } from "node:http2";

/** A connection is used for so many requests, so that what one of them breaks harms few others. */
const REQUESTS_PER_CONNECTION = 300;
/** Of a body; the rest is counted and dropped. */
const KEPT_BYTES = 16 * 1024 * 1024;

/** @typedef {import("node:http2").ClientHttp2Session} Session */
/** @typedef {import("node:http2").OutgoingHttpHeaders} Headers */

/** Connections for requests that have nothing wrong with their HTTP/2. */
export class Http2Pool {
  #url;
  /** @type {({ session: Session, left: number } | undefined)[]} */
  #connections;
  /** All that are open: Node does not close one of which a stream was reset while it was written to. @type {Set<Session>} */
  #open = new Set();
  #next = 0;

  /**
   * @param {string} url
   * @param {number} size
   */
  constructor(url, size) {
    this.#url = url;
    this.#connections = Array.from({ length: size });
  }

  /** One that is open. */
  session() {
    const at = this.#next++ % this.#connections.length;
    const found = this.#connections[at];
    if (found !== undefined && found.left-- > 0 && !found.session.closed && !found.session.destroyed)
      return found.session;
    // What is under way on the old one comes to its end.
    found?.session.close();
    const session = connect(this.#url, { settings: { enablePush: false }, maxSessionMemory: 256 });
    session.on("error", () => undefined);
    this.#open.add(session);
    session.once("close", () => this.#open.delete(session));
    this.#connections[at] = { session, left: REQUESTS_PER_CONNECTION };
    return session;
  }

  close() {
    for (const session of this.#open) session.destroy();
  }
}

/** One request and what comes back. */
export class Http2Talk {
  /** @type {import("node:http2").ClientHttp2Stream | undefined} */
  #stream;
  /** @type {import("node:http2").IncomingHttpHeaders} */
  head = {};
  /** @type {import("node:http2").IncomingHttpHeaders} */
  trailers = {};
  /** @type {Buffer[]} */
  #chunks = [];
  bytes = 0;
  isClosed = false;
  rstCode = 0;
  /** @type {(() => void)[]} */
  #listeners = [];
  /** Called with what comes, as it comes. @type {(chunk: Buffer) => void} */
  onData = () => undefined;

  /**
   * @param {Session} session
   * @param {Headers} headers
   */
  constructor(session, headers) {
    try {
      this.#stream = session.request(headers, { endStream: false });
    } catch {
      // The connection has just gone.
      this.isClosed = true;
      return;
    }
    const stream = this.#stream;
    stream.on("error", () => undefined);
    stream.on("response", (head) => this.#note(() => (this.head = head)));
    stream.on("trailers", (trailers) => this.#note(() => (this.trailers = trailers)));
    stream.on("data", (/** @type {Buffer} */ chunk) => this.#note(() => this.#take(chunk)));
    stream.on("close", () =>
      this.#note(() => {
        this.isClosed = true;
        this.rstCode = stream.rstCode ?? 0;
      }),
    );
  }

  /** What came of the body. */
  get body() {
    return Buffer.concat(this.#chunks);
  }

  /** Whether anything came. */
  get isAnswered() {
    return this.head[constants.HTTP2_HEADER_STATUS] !== undefined;
  }

  /** @param {Buffer} chunk */
  #take(chunk) {
    if (this.bytes < KEPT_BYTES) this.#chunks.push(chunk);
    this.bytes += chunk.length;
    this.onData(chunk);
  }

  /** @param {() => void} change */
  #note(change) {
    change();
    for (const listener of this.#listeners) listener();
  }

  /**
   * Sends more of the body; false when nobody takes it any more.
   *
   * @param {Buffer} bytes
   * @param {number} patienceMs For room to send it.
   */
  async write(bytes, patienceMs) {
    const stream = this.#stream;
    if (stream === undefined || this.isClosed || !stream.writable) return false;
    if (stream.write(bytes)) return true;
    let hasRoom = false;
    const drained = () => this.#note(() => (hasRoom = true));
    stream.once("drain", drained);
    await this.until(() => hasRoom, patienceMs);
    return !this.isClosed;
  }

  /** No more of the body. */
  end() {
    if (!this.isClosed) this.#stream?.end();
  }

  /** @param {number} code */
  reset(code) {
    if (!this.isClosed) this.#stream?.close(code);
  }

  /**
   * Resolves when it is so, or the request is over, or the time is: to whether it is so.
   *
   * @param {() => boolean} isSo
   * @param {number} withinMs
   * @returns {Promise<boolean>}
   */
  async until(isSo, withinMs) {
    if (isSo()) return true;
    if (!this.isClosed) {
      await new Promise((resolve) => {
        // What came while this process was busy is looked at first.
        const timer = setTimeout(() => setImmediate(() => setImmediate(done)), withinMs);
        const look = () => {
          if (isSo() || this.isClosed) done();
        };
        const listeners = this.#listeners;
        listeners.push(look);
        function done() {
          clearTimeout(timer);
          const at = listeners.indexOf(look);
          if (at >= 0) listeners.splice(at, 1);
          resolve(undefined);
        }
      });
    }
    return isSo();
  }
}
