import { connect } from "node:net";

const KEPT_BYTES = 512 * 1024;

/** A connection in bytes. */
export class TcpTalk {
  #socket;
  /** @type {Buffer[]} */
  #chunks = [];
  bytes = 0;
  /** Both sides are done. */
  isClosed = false;
  /** The server has sent its last byte. */
  isEnded = false;
  isReset = false;
  /** @type {(() => void)[]} */
  #listeners = [];

  /** @param {number} port */
  constructor(port) {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    this.#socket = socket;
    const note = (/** @type {() => void} */ change) => {
      change();
      for (const listener of this.#listeners) listener();
    };
    socket.on("error", (/** @type {NodeJS.ErrnoException} */ error) => {
      this.isReset = error.code === "ECONNRESET" || error.code === "EPIPE";
    });
    socket.on("data", (chunk) =>
      note(() => {
        if (this.bytes < KEPT_BYTES) this.#chunks.push(chunk);
        this.bytes += chunk.length;
      }),
    );
    socket.on("end", () => note(() => (this.isEnded = true)));
    socket.on("close", () => note(() => (this.isClosed = this.isEnded = true)));
  }

  /** What came. */
  get body() {
    return Buffer.concat(this.#chunks);
  }

  /** @param {Buffer | string} bytes */
  write(bytes) {
    if (this.#socket.writable) this.#socket.write(bytes);
  }

  /** Sends nothing more, and goes on reading. */
  end() {
    if (this.#socket.writable) this.#socket.end();
  }

  /** Takes the connection away. */
  reset() {
    this.#socket.resetAndDestroy();
  }

  destroy() {
    this.#socket.destroy();
  }

  /**
   * Resolves when it is so, or the connection is over, or the time is: to whether it is so.
   *
   * @param {() => boolean} isSo
   * @param {number} withinMs
   * @returns {Promise<boolean>}
   */
  async until(isSo, withinMs) {
    if (!isSo() && !this.isClosed) {
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

/**
 * The first answer of HTTP/1.1 in these bytes; undefined where there is none, or not all of it.
 *
 * @param {Buffer} bytes
 */
export function readHttp1(bytes) {
  const end = bytes.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  // "100 Continue" is no answer yet.
  if (/^HTTP\/1\.1 1/.test(bytes.subarray(0, 10).toString("latin1")))
    return readHttp1(bytes.subarray(end + 4));
  const [start = "", ...lines] = bytes.subarray(0, end).toString("latin1").split("\r\n");
  const [, status] = /^HTTP\/1\.[01] (\d{3})/.exec(start) ?? [];
  if (status === undefined) return undefined;
  const head = headOf(lines);
  const rest = bytes.subarray(end + 4);
  const length = head["content-length"];
  const chunked = head["transfer-encoding"] === "chunked";
  const body = chunked ? unchunked(rest) : length !== undefined ? whole(rest, Number(length)) : rest;
  const trailers = chunked ? { trailers: trailersOf(rest) } : {};
  return { status: Number(status), head, ...trailers, body, isWhole: body !== undefined };
}

/** @param {Buffer} rest */
function trailersOf(rest) {
  return headOf(rest.toString("latin1").split("\r\n0\r\n").at(-1)?.split("\r\n") ?? []);
}

/** @param {readonly string[]} lines */
function headOf(lines) {
  /** @type {Record<string, string>} */
  const head = {};
  for (const line of lines) {
    const at = line.indexOf(":");
    if (at > 0) head[line.slice(0, at).toLowerCase()] = line.slice(at + 1).trim();
  }
  return head;
}

/**
 * @param {Buffer} bytes
 * @param {number} length
 */
function whole(bytes, length) {
  return bytes.length < length ? undefined : bytes.subarray(0, length);
}

/** @param {Buffer} bytes */
function unchunked(bytes) {
  const chunks = [];
  let at = 0;
  for (;;) {
    const end = bytes.indexOf("\r\n", at);
    if (end < 0) return undefined;
    const size = Number.parseInt(bytes.subarray(at, end).toString("latin1"), 16);
    if (!(size >= 0)) return undefined;
    if (size === 0) return Buffer.concat(chunks);
    chunks.push(bytes.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
    if (at > bytes.length) return undefined;
  }
}
