import { constants } from "node:http2";
import { fromBinary } from "@bufbuild/protobuf";
import { CallService } from "@trunkline/proto/call";
import { WorkerService } from "@trunkline/proto/worker";
import { compressed } from "../input/compressed.mjs";
import { mutated, toBytes } from "../input/binary.mjs";
import { mutatedJson, toJsonText } from "../input/json-body.mjs";
import { Filler } from "../input/message.mjs";
import { anyHeader } from "../input/headers.mjs";
import { envelope, envelopes, readAnswer } from "../wire/answer.mjs";
import { Http2Talk } from "../wire/http2-client.mjs";
import { BEATS_MS, LITTLE_MS, METHODS, pathOf } from "./context.mjs";

/** @typedef {import("./context.mjs").Context} Context */
/** @typedef {import("./context.mjs").Kind} Kind */
/** @typedef {import("./context.mjs").Answer} Answer */
/** @typedef {import("./context.mjs").DescMethod} DescMethod */
/** @typedef {import("../../fault-run/random.mjs").Random} Random */
/** How one stream is carried. @typedef {{ type: string, isGrpc: boolean, json: boolean, encoding: string }} Carriage */

const MOST_FRAMES = 10;
/** Between two frames, for the server to say something that the next one can be about. */
const BREATH_MS = 20;
/** How many of the streams that go on after their clients have said all are watched for longer. */
const WATCHED = 0.03;
const RESETS = [
  ...[constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_CANCEL, constants.NGHTTP2_INTERNAL_ERROR],
  ...[constants.NGHTTP2_REFUSED_STREAM, constants.NGHTTP2_PROTOCOL_ERROR, 0xffff],
];

const { work } = WorkerService.method;
const { drive } = CallService.method;
/** Both, in turn with the other streams that there are. */
const OTHERS = METHODS.filter(
  (method) => method.methodKind !== "unary" && method !== work && method !== drive,
);

/** @type {Kind} */
export const workFrames = {
  name: "frames of Work",
  weight: 9,
  send: (context, random) => converse(context, random, work),
};

/** @type {Kind} */
export const driveFrames = {
  name: "frames of Drive",
  weight: 9,
  send: (context, random) => converse(context, random, drive),
};

/** WatchRun, health and reflection. @type {Kind} */
export const otherFrames = {
  name: "frames of others",
  weight: 2,
  send: (context, random) => converse(context, random, random.pick(OTHERS)),
};

/**
 * Sends some frames, and sees how the stream ends.
 *
 * @param {Context} context
 * @param {Random} random
 * @param {DescMethod} method
 * @returns {Promise<Answer>}
 */
async function converse(context, random, method) {
  const carriage = anyCarriage(random);
  const talk = new Http2Talk(context.pool.session(), headersOf(context, random, method, carriage));
  learnFrom(context, talk, method, carriage);
  const sent = await sendFrames(context, random, method, carriage, talk);
  if (sent.isCut) return { code: "cut by us", inputs: sent.frames };
  talk.end();
  return { ...(await endOf(context, random, method, talk)), inputs: sent.frames };
}

/**
 * @param {Context} context
 * @param {Random} random
 * @param {DescMethod} method
 * @param {Http2Talk} talk
 * @returns {Promise<Answer>}
 */
async function endOf({ patienceMs }, random, method, talk) {
  // A worker that has said all has no more to wait for; a harness waits for its calls, and hears of it.
  const ends = method === work;
  const isWatched = method === drive && random.chance(WATCHED);
  const before = talk.bytes;
  const isOver = await talk.until(() => talk.isClosed, ends ? patienceMs : isWatched ? BEATS_MS : LITTLE_MS);
  if (!isOver) {
    talk.reset(constants.NGHTTP2_CANCEL);
    return { code: ends || (isWatched && talk.bytes === before) ? "hang" : "goes on" };
  }
  const { head, trailers, body } = talk;
  if (!talk.isAnswered) return { code: `closed (${talk.rstCode})` };
  return readAnswer({ status: Number(head[":status"]), head, trailers, body });
}

/**
 * @param {Random} random
 * @returns {Carriage}
 */
function anyCarriage(random) {
  const encoding = random.chance(0.1) ? random.pick(["gzip", "br", "identity", "deflate"]) : "";
  if (random.chance(0.5)) {
    const type = random.pick(["application/grpc", "application/grpc+proto"]);
    return { type, isGrpc: true, json: false, encoding };
  }
  const json = random.chance(0.5);
  const format = json ? "json" : "proto";
  const type = random.pick(["connect", "connect", "grpc-web", "grpc"]);
  return { type: `application/${type}+${format}`, isGrpc: type !== "connect", json, encoding };
}

/**
 * @param {Context} context
 * @param {Random} random
 * @param {DescMethod} method
 * @param {Carriage} carriage
 */
function headersOf({ port, credentials }, random, method, { type, isGrpc, encoding }) {
  /** @type {Record<string, string>} */
  const headers = {
    ":method": random.chance(0.995) ? "POST" : "PUT",
    ":path": pathOf(method),
    ":authority": `127.0.0.1:${port}`,
    "content-type": type,
    ...(isGrpc && { te: "trailers" }),
    ...Object.fromEntries(credentials.header(random, method === work ? "worker" : "harness")),
  };
  if (encoding !== "") headers[isGrpc ? "grpc-encoding" : "connect-content-encoding"] = encoding;
  if (random.chance(0.05)) {
    const [name, value] = anyHeader(random);
    headers[name.toLowerCase()] = value;
  }
  return headers;
}

/**
 * @param {Context} context
 * @param {Random} random
 * @param {DescMethod} method
 * @param {Carriage} carriage
 * @param {Http2Talk} talk
 */
async function sendFrames(context, random, method, carriage, talk) {
  const most = method.methodKind === "server_streaming" ? random.int(1, 2) : random.int(1, MOST_FRAMES);
  let frames = 0;
  for (; frames < most && !talk.isClosed; frames++) {
    const bytes = frameBytes(context, random, method, carriage, frames === 0);
    // A frame may come in pieces of any length.
    const at = random.chance(0.2) ? random.int(0, bytes.length) : bytes.length;
    if (!(await talk.write(bytes.subarray(0, at), context.patienceMs))) break;
    if (random.chance(0.02)) {
      talk.reset(random.pick(RESETS));
      return { frames: frames + 1, isCut: true };
    }
    await talk.write(bytes.subarray(at), context.patienceMs);
    if (frames === 0 || random.chance(0.3)) {
      const before = talk.bytes;
      await talk.until(() => talk.bytes > before, BREATH_MS);
    }
  }
  return { frames: Math.max(1, frames), isCut: false };
}

/**
 * @param {Context} context
 * @param {Random} random
 * @param {DescMethod} method
 * @param {Carriage} carriage
 * @param {boolean} isFirst
 */
function frameBytes({ known }, random, { input }, { json, encoding }, isFirst) {
  const isHello = isFirst && input === work.input;
  // What a stream begins with is good more often than not, or the rest would never be looked at.
  const filler = isHello && random.chance(0.7) ? new Filler(random, known, 0) : new Filler(random, known);
  const filled = filler.message(input, isHello ? ["hello"] : [], isHello ? [] : ["hello"]);
  const plain = json ? Buffer.from(toJsonText(random, filled, isHello ? 0 : 0.03)) : toBytes(filled);
  const isBroken = random.chance(0.06);
  const broken = json ? () => mutatedJson(random, plain.toString()) : () => mutated(random, plain);
  const message = isBroken ? broken() : plain;
  if (encoding !== "" && random.chance(0.7)) return envelope(compressed(random, message).bytes, 1);
  return enveloped(random, message);
}

/**
 * @param {Random} random
 * @param {Buffer} bytes
 */
function enveloped(random, bytes) {
  if (random.chance(0.96)) return envelope(bytes);
  switch (random.int(0, 3)) {
    case 0:
      return envelope(bytes, random.pick([1, 2, 3, 0x80, 0xff]));
    case 1:
      return envelope(
        bytes,
        0,
        random.pick([0, 1, bytes.length - 1, bytes.length + 1, 2 ** 22 + 1, 2 ** 31, 2 ** 32 - 1]),
      );
    case 2:
      return Buffer.concat([envelope(Buffer.alloc(0)), envelope(Buffer.alloc(0)), envelope(bytes)]);
    default:
      return bytes;
  }
}

/**
 * Takes over what a stream's answers name, while it goes on.
 *
 * @param {Context} context
 * @param {Http2Talk} talk
 * @param {DescMethod} method
 * @param {Carriage} carriage
 */
function learnFrom({ known }, talk, { output }, { json }) {
  if (json) return;
  let rest = Buffer.alloc(0);
  talk.onData = (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (const { flags, payload } of envelopes(rest)) {
      rest = rest.subarray(5 + payload.length);
      // Others are compressed, or an end.
      if (flags === 0) known.learn(output, fromBinary(output, payload));
    }
  };
}
