import { fromBinary, fromJson } from "@bufbuild/protobuf";
import { compressed } from "../input/compressed.mjs";
import { mutated, toBytes } from "../input/binary.mjs";
import { mutatedJson, toJsonText } from "../input/json-body.mjs";
import { Filler } from "../input/message.mjs";
import { anyHeader } from "../input/headers.mjs";
import { envelope, envelopes } from "../wire/answer.mjs";
import { pathOf, UNARY_METHODS, WAITING } from "./context.mjs";
import { ask } from "./request.mjs";

/** @typedef {import("./context.mjs").Context} Context */
/** @typedef {import("./context.mjs").Kind} Kind */
/** @typedef {import("./context.mjs").DescMethod} DescMethod */
/** @typedef {import("../../fault-run/random.mjs").Random} Random */

/** What makes things for good is asked for now and then only. */
const SELDOM = new Set(["CreateProject", "CreateKey", "RotateSigningKey", "RotateKey"]);

/**
 * @param {Random} random
 * @returns {DescMethod}
 */
function anyMethod(random) {
  for (;;) {
    const method = random.pick(UNARY_METHODS);
    if (!SELDOM.has(method.name) || random.chance(0.15)) return method;
  }
}

/** Unary RPCs with binary bodies, over gRPC, gRPC-Web and Connect. @type {Kind} */
export const unaryBinary = {
  name: "unary, binary",
  weight: 22,
  send: (context, random) => {
    const method = anyMethod(random);
    const bytes = toBytes(new Filler(random, context.known).message(method.input));
    return send(context, random, method, false, random.chance(0.25) ? mutated(random, bytes) : bytes);
  },
};

/** The same with JSON. @type {Kind} */
export const unaryJson = {
  name: "unary, JSON",
  weight: 22,
  send: (context, random) => {
    const method = anyMethod(random);
    const text = toJsonText(random, new Filler(random, context.known).message(method.input));
    return send(
      context,
      random,
      method,
      true,
      random.chance(0.2) ? mutatedJson(random, text) : Buffer.from(text),
    );
  },
};

/**
 * @param {Context} context
 * @param {Random} random
 * @param {DescMethod} method
 * @param {boolean} json
 * @param {Buffer} message
 */
async function send(context, random, method, json, message) {
  const protocol = random.pick(/** @type {const} */ (["connect", "connect", "grpc", "grpc-web"]));
  const http1 = protocol !== "grpc" && random.chance(0.35);
  /** @type {[string, string][]} */
  const headers = [...context.credentials.header(random)];
  const isCompressed = random.chance(0.12);
  const { encoding, bytes } = isCompressed ? compressed(random, message) : { encoding: "", bytes: message };
  if (isCompressed) headers.push([protocol === "connect" ? "content-encoding" : "grpc-encoding", encoding]);
  if (random.chance(0.05)) headers.push(anyHeader(random));
  const format = json ? "json" : "proto";
  headers.push([
    "content-type",
    protocol === "connect" ? `application/${format}` : `application/${protocol}+${format}`,
  ]);
  if (protocol === "grpc") headers.push(["te", "trailers"]);
  const body = protocol === "connect" ? bytes : framed(random, bytes, isCompressed);
  const cut = random.chance(0.03) ? { cutAfter: random.int(0, body.length) } : {};
  const waits = WAITING.has(method.name);
  const sent = await ask(context, { path: pathOf(method), headers, body, http1, waits, ...cut });
  if (sent.answer.code === "hang")
    return { code: "hang", text: `${pathOf(method)}: ${body.toString("latin1")}` };
  if (sent.answer.code === "ok") learn(context, method, json, protocol === "connect", sent.body);
  return sent.answer;
}

/**
 * One message as gRPC has it, mostly.
 *
 * @param {Random} random
 * @param {Buffer} bytes
 * @param {boolean} isCompressed
 */
function framed(random, bytes, isCompressed) {
  if (random.chance(0.92)) return envelope(bytes, isCompressed ? 1 : 0);
  switch (random.int(0, 4)) {
    case 0:
      return envelope(bytes, random.pick([1, 2, 3, 0x80, 0xff]));
    case 1:
      return envelope(
        bytes,
        0,
        random.pick([0, 1, bytes.length + 1, 2 ** 22, 2 ** 22 + 1, 2 ** 31, 2 ** 32 - 1]),
      );
    case 2:
      return Buffer.concat([envelope(bytes), envelope(bytes)]);
    case 3:
      return envelope(bytes).subarray(0, random.int(0, 5));
    default:
      return Buffer.alloc(0);
  }
}

/**
 * @param {Context} context
 * @param {DescMethod} method
 * @param {boolean} json
 * @param {boolean} isBare
 * @param {Buffer} body
 */
function learn({ known }, { output }, json, isBare, body) {
  const bytes = isBare ? body : envelopes(body)[0]?.payload;
  if (bytes === undefined) return;
  try {
    const message = json ? fromJson(output, JSON.parse(bytes.toString())) : fromBinary(output, bytes);
    known.learn(output, message);
  } catch {
    // It is compressed, as a header had asked for.
  }
}
