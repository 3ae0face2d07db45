import { compressed } from "../input/compressed.mjs";
import { mutatedJson } from "../input/json-body.mjs";
import { jsonText } from "../input/json-texts.mjs";
import { anyContentType, anyHeader } from "../input/headers.mjs";
import { hostileText } from "../input/values.mjs";
import { ask } from "./request.mjs";

/** @typedef {import("./context.mjs").Kind} Kind */
/** @typedef {import("./context.mjs").Context} Context */
/** @typedef {import("../../fault-run/random.mjs").Random} Random */

const METHODS = ["GET", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"];
const ATTEMPTS = [
  "0",
  "1",
  "2",
  "-1",
  "1.5",
  "1e0",
  "2147483647",
  "2147483648",
  "1e999",
  '"1"',
  "null",
  "true",
  "[1]",
];

/** The settle route's bodies. @type {Kind} */
export const settleRoute = {
  name: "settle route",
  weight: 8,
  send: async (context, random) => {
    const text = bodyText(context, random);
    const plain = random.chance(0.2) ? mutatedJson(random, text) : Buffer.from(text);
    /** @type {[string, string][]} */
    const headers = [...context.credentials.header(random)];
    headers.push(["content-type", random.chance(0.95) ? "application/json" : anyContentType(random)]);
    const { encoding, bytes } = random.chance(0.05)
      ? compressed(random, plain)
      : { encoding: "", bytes: plain };
    if (encoding !== "") headers.push(["content-encoding", encoding]);
    if (random.chance(0.05)) headers.push(anyHeader(random));
    const run = encodeURIComponent(context.known.text(random, "run", 0.05));
    const path = `/api/machine/sessions/${run}/calls/settle`;
    const method = random.chance(0.96) ? "POST" : random.pick(METHODS);
    const cut = random.chance(0.03) ? { cutAfter: random.int(0, bytes.length) } : {};
    const http1 = random.chance(0.5);
    const { answer } = await ask(context, {
      path,
      method,
      headers,
      body: bytes,
      http1,
      waits: false,
      ...cut,
    });
    return answer;
  },
};

/**
 * @param {Context} context
 * @param {Random} random
 */
function bodyText({ known }, random) {
  const isResult = random.chance(0.5);
  const types = ["tool.result", "tool.error"];
  const type = random.chance(0.95) ? types[isResult ? 0 : 1] : hostileText(random);
  const id = known.text(random, random.chance(0.6) ? "call" : "key", 0.05);
  const members = [`"type":${JSON.stringify(type)}`, `"id":${JSON.stringify(id)}`];
  if (random.chance(0.3)) members.push(`"attempt":${random.pick(ATTEMPTS)}`);
  if (isResult && random.chance(0.9)) members.push(`"result":${jsonText(random)}`);
  if (!isResult) members.push(`"error":${errorText(random)}`);
  if (random.chance(0.2))
    members.push(`"retryable":${random.pick(["true", "false", "null", '"true"', "1"])}`);
  if (random.chance(0.05))
    members.push(`${JSON.stringify(hostileText(random))}:1`, '"__proto__":{"type":"tool.result"}');
  if (random.chance(0.05)) members.push(random.pick(members));
  return `{${random.shuffle(members).join(",")}}`;
}

/** @param {Random} random */
function errorText(random) {
  if (random.chance(0.4)) return JSON.stringify(hostileText(random));
  if (random.chance(0.2)) return jsonText(random);
  return `{"message":${JSON.stringify(hostileText(random))},"data":${jsonText(random)}}`;
}
