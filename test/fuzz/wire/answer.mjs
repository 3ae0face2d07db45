import { Code } from "@connectrpc/connect";

/**
 * What became of an input: a word that is counted, and the server's text where it gave one. `inputs` are more than
 * one where one stream carried several.
 *
 * @typedef {{ code: string, text?: string, inputs?: number }} Answer
 */
/** @typedef {import("node:http2").IncomingHttpHeaders} Headers */

const GRPC_END = 0x80;
const CONNECT_END = 0x02;

/**
 * An answer of any of the three protocols, or of plain HTTP.
 *
 * @param {{ status: number, head: Headers | Record<string, string>, trailers?: Headers, body: Buffer }} given
 * @returns {Answer}
 */
export function readAnswer({ status, head, trailers, body }) {
  const type = String(head["content-type"] ?? "");
  // As a header of the request has asked for.
  if ((head["grpc-encoding"] ?? head["connect-content-encoding"]) !== undefined)
    return { code: "compressed" };
  if (type.startsWith("application/grpc-web")) return grpcAnswer({ ...head, ...webTrailers(body) }, body);
  // HTTP/1.0 has no trailers, and so no gRPC.
  if (type.startsWith("application/grpc") && trailers === undefined) return { code: "no trailers" };
  if (type.startsWith("application/grpc")) return grpcAnswer({ ...head, ...trailers }, body);
  if (type.startsWith("application/connect+")) return connectEnd(body);
  if (status === 200) return { code: "ok" };
  if (type.startsWith("application/json") && head["content-encoding"] === undefined) {
    const error = parsed(body);
    if (typeof error?.code === "string") return { code: error.code, text: String(error.message ?? "") };
    // The settle route: its problem is within.
    if (error?.problem !== undefined) return { code: `http ${status}`, text: String(error.problem.message) };
  }
  return { code: `http ${status}`, text: body.toString("latin1").slice(0, 200) };
}

/**
 * @param {Headers | Record<string, string | undefined>} trailers
 * @param {Buffer} body
 */
function grpcAnswer(trailers, body) {
  const number = trailers["grpc-status"];
  if (number === undefined)
    return { code: "no status", text: `${JSON.stringify(trailers)} ${body.toString("latin1")}` };
  if (Number(number) === 0) return { code: "ok" };
  const name = Code[Number(number)] ?? `grpc ${String(number)}`;
  return { code: snake(name), text: unescaped(String(trailers["grpc-message"] ?? "")) };
}

/** @param {string} text */
function unescaped(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string} name */
function snake(name) {
  return name.replace(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
}

/** @param {Buffer} body */
function webTrailers(body) {
  const end = envelopes(body).find(({ flags }) => (flags & GRPC_END) !== 0);
  if (end === undefined) return {};
  const lines = end.payload.toString("latin1").split("\r\n");
  return Object.fromEntries(
    lines.flatMap((line) => {
      const at = line.indexOf(":");
      return at < 0 ? [] : [[line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()]];
    }),
  );
}

/** @param {Buffer} body */
function connectEnd(body) {
  const end = envelopes(body).find(({ flags }) => (flags & CONNECT_END) !== 0);
  if (end === undefined) return { code: "no end" };
  const { error } = parsed(end.payload) ?? {};
  return error === undefined
    ? { code: "ok" }
    : { code: String(error.code), text: String(error.message ?? "") };
}

/** @param {Buffer} body */
function parsed(body) {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}

/**
 * The messages of a stream that are whole.
 *
 * @param {Buffer} bytes
 */
export function envelopes(bytes) {
  const found = [];
  for (let at = 0; at + 5 <= bytes.length;) {
    const length = bytes.readUInt32BE(at + 1);
    if (at + 5 + length > bytes.length) break;
    found.push({ flags: bytes.readUInt8(at), payload: bytes.subarray(at + 5, at + 5 + length) });
    at += 5 + length;
  }
  return found;
}

/**
 * @param {Buffer} payload
 * @param {number} [flags]
 * @param {number} [length] What it says of its length, where that is not true.
 */
export function envelope(payload, flags = 0, length = payload.length) {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags, 0);
  head.writeUInt32BE(length >>> 0, 1);
  return Buffer.concat([head, payload]);
}
