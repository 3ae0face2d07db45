/** HTTP/2 by hand, for what no library sends. */

export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  push: 5,
  ping: 6,
  goaway: 7,
  window: 8,
  continuation: 9,
};
export const FLAG = { endStream: 1, endHeaders: 4, padded: 8, priority: 0x20 };

/**
 * @param {number} type
 * @param {number} flags
 * @param {number} stream
 * @param {Buffer} payload
 * @param {number} [length] What it says of its length, where that is not true.
 */
export function frame(type, flags, stream, payload, length = payload.length) {
  const head = Buffer.alloc(9);
  head.writeUIntBE(length & 0xff_ffff, 0, 3);
  head.writeUInt8(type & 0xff, 3);
  head.writeUInt8(flags & 0xff, 4);
  head.writeUInt32BE(stream >>> 0, 5);
  return Buffer.concat([head, payload]);
}

/**
 * Headers as HPACK has them without its table, whatever is in them.
 *
 * @param {readonly (readonly [name: string, value: string])[]} headers
 */
export function headerBlock(headers) {
  return Buffer.concat(
    headers.flatMap(([name, value]) => [Buffer.from([0]), hpackText(name), hpackText(value)]),
  );
}

/** @param {string} text */
function hpackText(text) {
  const bytes = Buffer.from(text, "latin1");
  return Buffer.concat([hpackInt(bytes.length), bytes]);
}

/** @param {number} value With a prefix of seven bits. */
function hpackInt(value) {
  if (value < 127) return Buffer.from([value]);
  const bytes = [127];
  let rest = value - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

/** In HPACK's static table, by its first byte. @type {Readonly<Record<number, number>>} */
const STATUSES = { 0x88: 200, 0x89: 204, 0x8a: 206, 0x8b: 304, 0x8c: 400, 0x8d: 404, 0x8e: 500 };

/**
 * What a server has said, in the words of its frames: statuses, resets and whether it has said goodbye.
 *
 * @param {Buffer} bytes
 */
export function readFrames(bytes) {
  /** @type {string[]} */
  const seen = [];
  for (let at = 0; at + 9 <= bytes.length;) {
    const length = bytes.readUIntBE(at, 3);
    const type = bytes.readUInt8(at + 3);
    const payload = bytes.subarray(at + 9, at + 9 + length);
    if (type === FRAME.headers) {
      const status = STATUSES[payload[0] ?? 0];
      // Trailers, and statuses that are not in the table, begin with another byte.
      seen.push(status === undefined ? "headers" : `status ${status}`);
    }
    if (type === FRAME.reset) seen.push(`reset ${payload.length >= 4 ? payload.readUInt32BE(0) : ""}`);
    if (type === FRAME.goaway) seen.push(`goaway ${payload.length >= 8 ? payload.readUInt32BE(4) : ""}`);
    at += 9 + length;
  }
  return seen;
}
