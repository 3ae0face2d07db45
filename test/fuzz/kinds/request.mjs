import { constants } from "node:http2";
import { Http2Talk } from "../wire/http2-client.mjs";
import { readAnswer } from "../wire/answer.mjs";
import { readHttp1, TcpTalk } from "../wire/tcp-client.mjs";
import { LITTLE_MS } from "./context.mjs";

/** @typedef {import("./context.mjs").Answer} Answer */
/** @typedef {import("./context.mjs").Context} Context */
/**
 * @typedef {object} Request
 * @property {string} path
 * @property {string} [method] Default: POST.
 * @property {readonly (readonly [string, string])[]} headers
 * @property {Buffer} body
 * @property {boolean} http1
 * @property {boolean} waits Whether an answer may take its time; it is not waited for then.
 * @property {number} [cutAfter] The client goes away after so many bytes of the body.
 */

/**
 * Sends a whole request and reads the answer.
 *
 * @param {Context} context
 * @param {Request} request
 * @returns {Promise<{ answer: Answer, head: Record<string, unknown>, body: Buffer }>}
 */
export async function ask(context, request) {
  return request.http1 ? askHttp1(context, request) : askHttp2(context, request);
}

/**
 * @param {Context} context
 * @param {Request} request
 */
async function askHttp2(
  { pool, port, patienceMs },
  { path, method = "POST", headers, body, waits, cutAfter },
) {
  /** @type {Record<string, string | string[]>} */
  const all = { ":method": method, ":path": path, ":authority": `127.0.0.1:${port}` };
  for (const [name, value] of headers) all[name.toLowerCase()] = value;
  const talk = new Http2Talk(pool.session(), all);
  const none = { head: {}, body: Buffer.alloc(0) };
  await talk.write(cutAfter === undefined ? body : body.subarray(0, cutAfter), patienceMs);
  if (cutAfter !== undefined) {
    talk.reset(constants.NGHTTP2_CANCEL);
    return { answer: { code: "cut by us" }, ...none };
  }
  talk.end();
  const isOver = await talk.until(() => talk.isClosed, waits ? LITTLE_MS : patienceMs);
  if (!isOver) {
    talk.reset(constants.NGHTTP2_CANCEL);
    return { answer: { code: waits ? "still waiting" : "hang" }, ...none };
  }
  if (!talk.isAnswered) return { answer: { code: `closed (${talk.rstCode})` }, ...none };
  const { head, trailers } = talk;
  const status = Number(head[":status"]);
  return { answer: readAnswer({ status, head, trailers, body: talk.body }), head, body: talk.body };
}

/**
 * @param {Context} context
 * @param {Request} request
 */
async function askHttp1({ port, patienceMs }, { path, method = "POST", headers, body, waits, cutAfter }) {
  const talk = new TcpTalk(port);
  const lines = [
    ...[`${method} ${path} HTTP/1.1`, `host: 127.0.0.1:${port}`, "connection: close"],
    ...[`content-length: ${body.length}`, ...headers.map(([name, value]) => `${name}: ${value}`)],
  ];
  talk.write(Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"));
  talk.write(cutAfter === undefined ? body : body.subarray(0, cutAfter));
  const none = { head: {}, body: Buffer.alloc(0) };
  if (cutAfter !== undefined) {
    talk.reset();
    return { answer: { code: "cut by us" }, ...none };
  }
  const isOver = await talk.until(() => talk.isEnded, waits ? LITTLE_MS : patienceMs);
  const read = readHttp1(talk.body);
  talk.destroy();
  if (!isOver) return { answer: { code: waits ? "still waiting" : "hang" }, ...none };
  if (read === undefined) return { answer: { code: talk.isReset ? "closed (reset)" : "closed" }, ...none };
  const { status, head, trailers, body: answered = Buffer.alloc(0), isWhole } = read;
  if (!isWhole) return { answer: { code: "cut by the server" }, ...none };
  return {
    answer: readAnswer({ status, head, ...(trailers && { trailers }), body: answered }),
    head,
    body: answered,
  };
}
