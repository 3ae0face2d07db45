import { create, toBinary } from "@bufbuild/protobuf";
import { WorkResponseSchema } from "@trunkline/proto/worker";
import type { Kit } from "../kit.js";
import { need, sameText } from "../mismatch.js";
import { MAX_FRAME_BYTES, type PeerStream } from "../peer-stream.js";
import type { Scenario } from "../scenario.js";
import { resultOf } from "./answers.js";

const SLOTS = 10;

/** Inputs and results that are large, or easily bent. */
export const PAYLOADS: readonly Scenario[] = [
  { number: 19, title: "big payloads", concurrency: SLOTS, play: bigPayloads },
  { number: 20, title: "exact numbers", concurrency: SLOTS, play: exactNumbers },
];

const MEBIBYTE = 1024 * 1024;
const QUOTES = 2;
/** A text of so many bytes as JSON, quotes included. */
const jsonOf = (bytes: number): string => `"${"x".repeat(bytes - QUOTES)}"`;
/** What ten mebibytes may take, beside the usual patience. */
const TRANSFER_MS = 10_000;

async function bigPayloads(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const granted = await largestFrame(kit, stream);
  const input = `"${"é".repeat((MEBIBYTE - QUOTES) / 2)}"`;
  const echo = kit.claim("echo", input);
  stream.give(echo);
  sameText("the result", resultOf(await kit.answer(stream, echo, TRANSFER_MS)), input);
  stream.ack(echo);

  const result = jsonOf(MEBIBYTE);
  const asked = `{"bytes":${MEBIBYTE - QUOTES}}`;
  const bigs = Array.from({ length: SLOTS - 1 }, () => kit.claim("big", asked));
  await kit.until("a grant for the slot", () => stream.granted === granted + 1);
  const last = kit.claim("big", asked);
  stream.give(...bigs, last);
  for (const claim of [...bigs, last]) {
    sameText("the result", resultOf(await kit.answer(stream, claim, TRANSFER_MS)), result);
    stream.ack(claim);
  }
  const { largestBytes } = stream;
  need(
    largestBytes <= MAX_FRAME_BYTES,
    `frames of at most ${MAX_FRAME_BYTES} bytes`,
    `one of ${largestBytes}`,
  );
}

/** Gives claims whose inputs fill a frame to its last byte; how many. */
async function largestFrame(kit: Kit, stream: PeerStream): Promise<number> {
  const claims = Array.from({ length: 3 }, () => kit.claim("echo", jsonOf(MEBIBYTE)));
  const last = kit.claim("echo", jsonOf(MEBIBYTE / 2));
  claims.push(last);
  // What its length takes is the same for all lengths from here to a mebibyte.
  const spare = MAX_FRAME_BYTES - toBinary(WorkResponseSchema, create(WorkResponseSchema, { claims })).length;
  last.inputJson = jsonOf(MEBIBYTE / 2 + spare);
  stream.give(...claims);
  for (const claim of claims) {
    sameText("the result", resultOf(await kit.answer(stream, claim, TRANSFER_MS)), claim.inputJson);
    stream.ack(claim);
  }
  await kit.until("a grant for each slot", () => stream.granted === claims.length);
  return claims.length;
}

const DEPTH = 200;

/** JSON texts that come back as they were. */
const EXACT: readonly string[] = [
  "12345678901234567890.12345678901234567890",
  "1e400",
  '{"n":[-0.0,1E+2,0.1e-7,9007199254740993,1.10]}',
  String.raw`"\u0000 \ud800 \udfff\ud800 \u00e9 \/"`,
  '"é 忙 \u{1f600} \u2028"',
  '{ "b" : 1,\t"a" : 2,\n"b" : 3, "__proto__" : {} }',
  `${"[".repeat(DEPTH)}${"]".repeat(DEPTH)}`,
];

async function exactNumbers(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const claims = EXACT.map((text) => kit.claim("echo", text));
  stream.give(...claims);
  for (const claim of claims) {
    sameText("the result", resultOf(await kit.answer(stream, claim)), claim.inputJson);
    stream.ack(claim);
  }
}
