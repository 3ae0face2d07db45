import { FLAG, FRAME, frame, headerBlock, PREFACE, readFrames } from "../wire/http2-bytes.mjs";
import { readHttp1, TcpTalk } from "../wire/tcp-client.mjs";
import { anyContentType, anyHeader, visible } from "../input/headers.mjs";
import { anyBytes, hostileText } from "../input/values.mjs";
import { envelope, readAnswer } from "../wire/answer.mjs";
import { LITTLE_MS, METHODS, pathOf } from "./context.mjs";

/** @typedef {import("./context.mjs").Context} Context */
/** @typedef {import("./context.mjs").Kind} Kind */
/** @typedef {import("./context.mjs").Answer} Answer */
/** @typedef {import("../../fault-run/random.mjs").Random} Random */
/** A request's start and headers, as they go over the wire. @typedef {{ method: string, path: string, authority: string, headers: [string, string][], body: Buffer }} Request */

const VERBS = [
  "GET",
  "PUT",
  "DELETE",
  "OPTIONS",
  "HEAD",
  "PATCH",
  "TRACE",
  "CONNECT",
  "post",
  "POST ",
  "PRI",
  "",
  "\u00ff",
];
const AUTHORITIES = [
  "",
  "[",
  "[::1]",
  "[::1",
  "a b",
  "localhost:99999",
  "user:pass@host",
  "..",
  "a".repeat(300),
  "http://x",
  "x/../y",
  "\u00e9",
  "0x7f.1",
  "%00",
];
const PATHS = [
  "",
  "*",
  "/",
  "//",
  "/..",
  "/%",
  "/%00",
  "/%ff",
  "http://evil.example/",
  "//evil.example/x",
  "/trunkline.v1.RunService",
  "/trunkline.v1.RunService/",
  "/trunkline.v1.RunService/ListRuns/",
  "/TRUNKLINE.V1.RunService/ListRuns",
  "/__proto__",
  "/constructor",
  "/grpc.health.v1.Health/Check?x=1#y",
];
const SETTLE = [
  "/api/machine/sessions//calls/settle",
  "/api/machine/sessions/%2e%2e/calls/settle",
  "/api/machine/sessions/%E0%A4/calls/settle",
  "/api/machine/sessions/__proto__/calls/settle",
];
/** In HTTP/2 only, or in none. */
const FORBIDDEN = /** @type {[string, string][]} */ ([
  ...[
    ["connection", "close"],
    ["transfer-encoding", "chunked"],
    ["te", "gzip"],
    ["upgrade", "h2c"],
    ["keep-alive", "1"],
  ],
  ...[
    ["Content-Type", "application/json"],
    [":status", "200"],
    [":path", "/other"],
    [":x", "y"],
    ["", "empty"],
    ["a b", "c"],
  ],
  ...[
    ["x", "a\nb"],
    ["x", "a\rb: c"],
    ["x", "\0"],
    ["x\0", "y"],
    ["content-length", "5"],
    ["content-length", "-1"],
    ["content-length", "99999999999999999999"],
  ],
  ...[
    ["host", "other.example"],
    ["content-length", "1"],
    ["cookie", "a=b"],
    ["proxy-connection", "x"],
    [":protocol", "websocket"],
  ],
]);

/** HTTP/1.1 requests with hostile heads. @type {Kind} */
export const http1Heads = {
  name: "headers, HTTP/1.1",
  weight: 12,
  send: async ({ port, credentials, patienceMs }, random) => {
    const request = anyRequest(port, credentials, random);
    const talk = new TcpTalk(port);
    talk.write(http1Bytes(random, request));
    // Whatever was asked for, nothing more comes: the server has to come to an end.
    talk.end();
    const isOver = await talk.until(() => talk.isEnded, patienceMs);
    const read = readHttp1(talk.body);
    talk.destroy();
    if (!isOver) return { code: "hang", text: request.path };
    // A request that ends before its body does gets no answer, though it may be told to go on.
    if (read === undefined) return { code: "closed" };
    const { status, head, trailers, body = Buffer.alloc(0) } = read;
    // It has the length of a body that it has not.
    if (request.method === "HEAD") return { code: `http ${status}` };
    return readAnswer({ status, head, ...(trailers && { trailers }), body });
  },
};

/** HTTP/2 requests with hostile heads, written by hand. @type {Kind} */
export const http2Heads = {
  name: "headers, HTTP/2",
  weight: 10,
  send: async ({ port, credentials, patienceMs, onGoaway }, random) => {
    const request = anyRequest(port, credentials, random);
    const talk = new TcpTalk(port);
    talk.write(http2Bytes(random, request));
    const seen = () => readFrames(talk.body).filter((each) => each !== "headers");
    const isRefused = () => seen().some((each) => each.startsWith("goaway"));
    await talk.until(() => talk.isEnded || seen().length > 0, LITTLE_MS);
    talk.end();
    const isOver = await talk.until(() => talk.isEnded || isRefused(), patienceMs);
    const [first = talk.bytes === 0 ? "nothing" : "headers"] = seen();
    if (isRefused()) onGoaway();
    talk.destroy();
    if (!isOver) return { code: "hang", text: request.path };
    return { code: first === "status 500" ? "http 500" : `h2 ${first}`, text: request.path };
  },
};

/**
 * @param {number} port
 * @param {Context["credentials"]} credentials
 * @param {Random} random
 * @returns {Request}
 */
function anyRequest(port, credentials, random) {
  const method = random.pick(METHODS.filter(({ name }) => !["Work", "WatchRun", "Watch"].includes(name)));
  const path = random.chance(0.75) ? pathOf(method) : anyPath(random);
  /** @type {[string, string][]} */
  const headers = random.chance(0.6)
    ? credentials.header(random)
    : [["authorization", credentials.hostile(random)]];
  headers.push(["content-type", random.chance(0.6) ? "application/json" : anyContentType(random)]);
  for (let left = random.int(0, 4); left > 0; left--) headers.push(anyHeader(random));
  if (random.chance(0.2)) headers.push(random.pick(FORBIDDEN));
  if (random.chance(0.04)) headers.push(...manyHeaders(random));
  return {
    method: random.chance(0.85) ? "POST" : random.pick(VERBS),
    path,
    authority: random.chance(0.9) ? `127.0.0.1:${port}` : random.pick(AUTHORITIES),
    headers: random.shuffle(headers),
    body: random.pick([Buffer.from("{}"), Buffer.alloc(0), envelope(Buffer.alloc(0)), anyBytes(random, 40)]),
  };
}

/** @param {Random} random */
function anyPath(random) {
  if (random.chance(0.2)) return random.pick(SETTLE);
  if (random.chance(0.6)) return random.pick(PATHS);
  if (random.chance(0.3))
    return `${pathOf(random.pick(METHODS))}?connect=v1&encoding=json&message=${encodeURIComponent(hostileText(random))}`;
  return `/${visible(hostileText(random)).replaceAll(" ", "%20")}`;
}

/**
 * @param {Random} random
 * @returns {[string, string][]}
 */
function manyHeaders(random) {
  const count = random.pick([50, 120, 130, 1_000, 2_001]);
  const value = "v".repeat(random.pick([1, 10, 300]));
  return Array.from({ length: count }, (_, at) => [random.chance(0.5) ? `x-${at}` : "x-same", value]);
}

/**
 * @param {Random} random
 * @param {Request} request
 */
function http1Bytes(random, { method, path, authority, headers, body }) {
  const version = random.chance(0.96)
    ? "HTTP/1.1"
    : random.pick(["HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "HTTP/9.9", "", "http/1.1"]);
  const eol = random.chance(0.97) ? "\r\n" : random.pick(["\n", "\r", "\n\r"]);
  const length = random.chance(0.9)
    ? [`content-length: ${body.length}`]
    : random.pick([
        [],
        ["transfer-encoding: chunked"],
        ["content-length: 1", "content-length: 2"],
        ["content-length: 9999"],
        ["transfer-encoding: gzip, chunked"],
      ]);
  const lines = [
    `${method} ${path} ${version}`,
    ...(random.chance(0.97) ? [`host: ${authority}`] : []),
    ...(random.chance(0.03) ? ["host: twice"] : []),
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...length,
  ];
  return Buffer.concat([Buffer.from(`${lines.join(eol)}${eol}${eol}`, "latin1"), body]);
}

/**
 * @param {Random} random
 * @param {Request} request
 */
function http2Bytes(random, { method, path, authority, headers, body }) {
  /** @type {[string, string][]} */
  const pseudo = [
    [":method", method],
    [":path", path],
    [":scheme", random.chance(0.97) ? "http" : random.pick(["https", "", "ftp", "http:"])],
    [":authority", authority],
  ];
  const kept = random.chance(0.95) ? pseudo : pseudo.filter(() => random.chance(0.7));
  const block = headerBlock(
    random.chance(0.97) ? [...kept, ...headers] : random.shuffle([...kept, ...headers]),
  );
  const [stream, other] = random.chance(0.97) ? [1, 1] : [random.int(0, 5), random.int(0, 5)];
  const split = random.chance(0.15) ? random.int(0, block.length) : block.length;
  const heads =
    split < block.length || block.length > 16_384
      ? continued(block, Math.min(split, 16_000), stream)
      : [frame(FRAME.headers, FLAG.endHeaders, stream, block)];
  return Buffer.concat([
    ...[PREFACE, frame(FRAME.settings, 0, 0, Buffer.alloc(0)), ...heads],
    frame(FRAME.data, random.chance(0.95) ? FLAG.endStream : 0, other, body),
  ]);
}

/**
 * Headers that go on in other frames.
 *
 * @param {Buffer} block
 * @param {number} split
 * @param {number} stream
 */
function continued(block, split, stream) {
  const frames = [frame(FRAME.headers, 0, stream, block.subarray(0, split))];
  for (let at = split; at < block.length; at += 16_000) {
    const isLast = at + 16_000 >= block.length;
    frames.push(
      frame(FRAME.continuation, isLast ? FLAG.endHeaders : 0, stream, block.subarray(at, at + 16_000)),
    );
  }
  return frames;
}
