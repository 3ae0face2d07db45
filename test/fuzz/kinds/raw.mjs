import { FLAG, FRAME, frame, headerBlock, PREFACE, readFrames } from "../wire/http2-bytes.mjs";
import { TcpTalk } from "../wire/tcp-client.mjs";
import { flipped } from "../input/binary.mjs";
import { anyBytes, wholeNumber } from "../input/values.mjs";
import { envelope } from "../wire/answer.mjs";

/** @typedef {import("./context.mjs").Kind} Kind */
/** @typedef {import("../../fault-run/random.mjs").Random} Random */

/** The beginning of a TLS handshake. */
const TLS_HELLO = Buffer.from("16030100c8010000c40303", "hex");
const LIST_RUNS =
  "POST /trunkline.v1.RunService/ListRuns HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
/** Without a credential it is looked into all the same. */
const GET_TASK = LIST_RUNS.replace("RunService/ListRuns", "TaskService/GetTask");
const WATCH_HEALTH =
  "POST /grpc.health.v1.Health/Watch HTTP/1.1\r\nhost: x\r\ncontent-type: application/connect+json\r\n";
const OTHER_PROTOCOLS = [
  "SSH-2.0-x\r\n",
  "EHLO x\r\n",
  "*1\r\n$4\r\nPING\r\n",
  "\x00\x00\x00\x08\x04\xd2\x16\x2f",
  "PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n",
  "GET / HTTP/0.9\r\n",
];
/** More than any client has need of, few enough for one write. */
const FLOOD = 2_000;

/** Whatever comes over a connection that is no HTTP, or only nearly. @type {Kind} */
export const rawBytes = {
  name: "raw bytes",
  weight: 6,
  send: async ({ port, patienceMs, onGoaway }, random) => {
    const talk = new TcpTalk(port);
    const bytes = anyConnection(random);
    const at = random.chance(0.5) ? bytes.length : random.int(0, bytes.length);
    talk.write(bytes.subarray(0, at));
    if (at < bytes.length) {
      await talk.until(() => talk.isEnded, random.int(0, 10));
      talk.write(bytes.subarray(at));
    }
    if (random.chance(0.1)) {
      talk.reset();
      return { code: "cut by us" };
    }
    await talk.until(() => talk.isEnded, random.int(0, 20));
    talk.end();
    const isRefused = () => readFrames(talk.body).some((each) => each.startsWith("goaway"));
    const isOver = await talk.until(() => talk.isEnded || isRefused(), patienceMs);
    if (isRefused()) onGoaway();
    talk.destroy();
    if (!isOver) return { code: "hang", text: bytes.subarray(0, 100).toString("latin1") };
    return { code: talk.bytes === 0 ? "closed" : firstWord(talk.body) };
  },
};

/** @param {Buffer} body */
function firstWord(body) {
  const [, status] = /^HTTP\/1\.1 (\d{3})/.exec(body.subarray(0, 20).toString("latin1")) ?? [];
  if (status !== undefined) return `http ${status}`;
  const [first = "settings"] = readFrames(body);
  return first === "status 500" ? "http 500" : `h2 ${first}`;
}

/** @type {readonly ((random: Random) => Buffer)[]} */
const CONNECTIONS = [
  (random) => anyBytes(random, 400),
  () => Buffer.alloc(0),
  (random) => Buffer.concat([TLS_HELLO, anyBytes(random, 200)]),
  (random) => PREFACE.subarray(0, random.int(1, PREFACE.length)),
  (random) => flipped(random, PREFACE),
  (random) => Buffer.from(random.pick(OTHER_PROTOCOLS)),
  (random) => Buffer.from(LIST_RUNS).subarray(0, random.int(1, LIST_RUNS.length)),
  (random) => flipped(random, Buffer.from(`${LIST_RUNS}content-length: 2\r\n\r\n{}`)),
  (random) => Buffer.from(`${LIST_RUNS}transfer-encoding: chunked\r\n\r\n${chunks(random)}`),
  (random) => Buffer.concat([...pipeline(random)]),
  (random) => Buffer.from(`${LIST_RUNS}x: ${"y".repeat(random.pick([1_000, 40_000, 200_000]))}`),
  (random) => Buffer.concat([PREFACE, frames(random)]),
  (random) => Buffer.concat([PREFACE, frames(random)]),
  (random) => Buffer.concat([PREFACE, frames(random)]),
  (random) => flipped(random, Buffer.concat([PREFACE, frames(random)])),
  (random) => Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0, Buffer.alloc(0)), flood(random)]),
];

/**
 * Requests of HTTP/1.1, none of which waits for the answer to the one before; mostly the first is answered without end.
 *
 * @param {Random} random
 */
function* pipeline(random) {
  if (random.chance(0.7)) {
    const ask = envelope(Buffer.from("{}"));
    yield Buffer.from(`${WATCH_HEALTH}content-length: ${ask.length}\r\n\r\n`);
    yield ask;
  }
  for (let left = random.int(2, 20); left > 0; left--)
    yield Buffer.from(`${random.pick([LIST_RUNS, GET_TASK])}content-length: 2\r\n\r\n{}`);
}

/** @param {Random} random */
function anyConnection(random) {
  return random.pick(CONNECTIONS)(random);
}

/** @param {Random} random */
function chunks(random) {
  return random.pick([
    "2\r\n{}\r\n0\r\n\r\n",
    "2\r\n{}\r\n",
    "ffffffffffffffff\r\n{}",
    "-1\r\n{}\r\n",
    "2;x=y\r\n{}\r\n0\r\nx: y\r\n\r\n",
    "0x2\r\n{}\r\n0\r\n\r\n",
    "zz\r\n",
    "1\r\n{}\r\n0\r\n\r\n",
  ]);
}

/**
 * Frames of HTTP/2 in any order, with anything in them.
 *
 * @param {Random} random
 */
function frames(random) {
  const first = random.chance(0.8) ? [frame(FRAME.settings, 0, 0, settings(random))] : [];
  const others = Array.from({ length: random.int(0, 12) }, () => anyFrame(random));
  return Buffer.concat([...first, ...others]);
}

/** @param {Random} random */
function settings(random) {
  const count = random.chance(0.95) ? random.int(0, 4) : 100;
  const bytes = Buffer.alloc(count * 6);
  for (let at = 0; at < bytes.length; at += 6) {
    bytes.writeUInt16BE(random.int(0, 9), at);
    bytes.writeUInt32BE(Number(BigInt.asUintN(32, wholeNumber(random))), at + 2);
  }
  return bytes;
}

/** @param {Random} random */
function anyFrame(random) {
  const type = random.chance(0.9) ? random.int(0, 9) : random.int(10, 255);
  const flags = random.chance(0.5) ? random.int(0, 255) : random.pick([0, 1, 4, 5]);
  const stream = random.chance(0.8)
    ? random.pick([0, 1, 3, 5])
    : Number(BigInt.asUintN(32, wholeNumber(random)));
  const payload = payloadOf(random, type);
  const length = random.chance(0.9) ? payload.length : random.pick([0, 1, 5, 16_385, 2 ** 24 - 1]);
  return frame(type, flags, stream, payload, length);
}

/**
 * @param {Random} random
 * @param {number} type
 */
function payloadOf(random, type) {
  if (type === FRAME.settings) return settings(random);
  if (type === FRAME.headers && random.chance(0.7)) return headerBlock(LIST_RUNS_HEADERS);
  if (random.chance(0.6)) {
    const bytes = Buffer.alloc(random.pick([4, 5, 8]));
    bytes.writeUInt32BE(Number(BigInt.asUintN(32, wholeNumber(random))));
    return bytes;
  }
  return anyBytes(random, 60);
}

const LIST_RUNS_HEADERS = /** @type {[string, string][]} */ ([
  [":method", "POST"],
  [":path", "/trunkline.v1.RunService/ListRuns"],
  [":scheme", "http"],
  [":authority", "x"],
  ["content-type", "application/json"],
]);

/**
 * Very many frames of one kind, as in known attacks: pings, settings, empty data, resets, headers without end.
 *
 * @param {Random} random
 */
function flood(random) {
  const nothing = Buffer.alloc(0);
  const block = headerBlock(LIST_RUNS_HEADERS);
  /** @param {(at: number) => Buffer} make */
  const many = (make) => Buffer.concat(Array.from({ length: FLOOD }, (_, at) => make(at)));
  switch (random.int(0, 6)) {
    case 0:
      return many(() => frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
    case 1:
      return many(() => frame(FRAME.settings, 0, 0, nothing));
    case 2:
      return Buffer.concat([
        frame(FRAME.headers, FLAG.endHeaders, 1, block),
        many(() => frame(FRAME.data, 0, 1, nothing)),
      ]);
    case 3:
      return many((at) =>
        Buffer.concat([
          frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, 2 * at + 1, block),
          frame(FRAME.reset, 0, 2 * at + 1, Buffer.from([0, 0, 0, 8])),
        ]),
      );
    case 4:
      return Buffer.concat([
        frame(FRAME.headers, 0, 1, block),
        many(() => frame(FRAME.continuation, 0, 1, block)),
      ]);
    case 5:
      return many((at) => frame(FRAME.priority, 0, 2 * at + 1, Buffer.alloc(5)));
    default:
      return many(() => frame(FRAME.window, 0, 0, Buffer.from([0, 0, 0, 1])));
  }
}
