import { FailureKind, type Failure } from "@trunkline/proto/model";
import type { Answer, Claim } from "@trunkline/proto/worker";
import { LIMITS } from "../../core/limits.js";
import type { Kit } from "../kit.js";
import { Mismatch, need, same, sameText } from "../mismatch.js";
import type { PeerStream } from "../peer-stream.js";
import type { Scenario } from "../scenario.js";

/** How calls end. */
export const ANSWERS: readonly Scenario[] = [
  { number: 2, title: "answer", play: answer },
  { number: 3, title: "failure", play: failure },
  { number: 4, title: "retryable failure", play: retryableFailure },
  { number: 5, title: "exception", play: exception },
];

async function answer(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  for (const [index, input] of ['{"say":"hello"}', "null"].entries()) {
    const claim = kit.claim("echo", input);
    stream.give(claim);
    await kit.started(claim);
    const said = await kit.answer(stream, claim);
    same("the answer's call", said.callId, claim.callId);
    sameText("the result", resultOf(said), input);
    need(
      isAcceptedFirst(stream, claim),
      "`accepted` before the answer",
      "an answer to what was not accepted",
    );
    stream.ack(claim);
    await kit.until("a grant for the slot", () => stream.granted > index);
  }
  await kit.calm(stream, "one grant for each slot, and one answer for each claim", () =>
    stream.granted > 2 ? `${stream.granted} slots were granted after two answers` : undefined,
  );
  for (const frame of stream.requests) need(frame.answers.length < 2, "each answer once", "one came again");
}

/** Whether the claim was accepted in the answer's frame or before it. */
function isAcceptedFirst(stream: PeerStream, { claimId }: Claim): boolean {
  for (const { accepted, heartbeat, answers } of stream.requests) {
    if (accepted.includes(claimId)) return true;
    if (answers.some((each) => each.claimId === claimId)) return false;
    // Of a frame, the heartbeat is applied after its answers.
    if (heartbeat?.claims.includes(claimId) === true) return true;
  }
  return false;
}

/** The result of an answer, as the JSON text that came. */
export function resultOf({ claimId, outcome }: Answer): string {
  if (outcome.case === "resultJson") return outcome.value;
  const came = outcome.case === "failure" ? `the failure ${outcome.value.message}` : "no outcome";
  throw new Mismatch(`a result for ${claimId}`, came);
}

/** The failure of an answer. */
export function failureOf({ claimId, outcome }: Answer): Failure {
  if (outcome.case === "failure") return outcome.value;
  throw new Mismatch(`a failure for ${claimId}`, outcome.case === undefined ? "no outcome" : "a result");
}

const FAILURES = [
  { message: "no such customer", data: { code: 404, near: ["a", null, true] }, retryable: false },
  { message: "the line is busy: größer, 忙", retryable: true },
];

async function failure(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  for (const asked of FAILURES) {
    const claim = kit.claim("fail", JSON.stringify(asked));
    stream.give(claim);
    const { kind, message, dataJson, retryable } = failureOf(await kit.answer(stream, claim));
    same("the failure's kind", FailureKind[kind], "TOOL");
    same("the failure's message", message, asked.message);
    same("the failure's data", parsed(dataJson), asked.data);
    same("the failure's `retryable`", retryable, asked.retryable);
    stream.ack(claim);
  }
  await largeData(kit, stream);
  await kit.goesOn(stream);
}

/** What JSON puts around a string. */
const QUOTES = 2;

/** Data up to the limit comes whole. More of it stays away, and takes neither the message nor `retryable` along. */
async function largeData(kit: Kit, stream: PeerStream): Promise<void> {
  for (const size of [LIMITS.failureDataBytes, LIMITS.failureDataBytes + 1]) {
    const data = "x".repeat(size - QUOTES);
    const claim = kit.claim("fail", JSON.stringify({ message: "all of it", data, retryable: true }));
    stream.give(claim);
    const { message, dataJson, retryable } = failureOf(await kit.answer(stream, claim));
    const bytes = Buffer.byteLength(dataJson);
    const fits = bytes <= LIMITS.failureDataBytes;
    need(fits, `failure data of at most ${LIMITS.failureDataBytes} bytes`, `${bytes} bytes`);
    if (size <= LIMITS.failureDataBytes) same("the bytes of the failure's data", bytes, size);
    need(message.includes("all of it"), 'a message with "all of it" in it', JSON.stringify(message));
    same("the failure's `retryable`", retryable, true);
    stream.ack(claim);
  }
}

/** Undefined when there is no data. */
function parsed(dataJson: string): unknown {
  if (dataJson === "") return undefined;
  try {
    return JSON.parse(dataJson);
  } catch {
    throw new Mismatch("failure data that is JSON text", dataJson);
  }
}

async function retryableFailure(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  let last = kit.claim("fail", '{"message":"again","retryable":true}');
  for (const attempt of [1, 2, 3]) {
    if (attempt > 1) last = kit.claim(last.tool, last.inputJson, { after: last });
    stream.give(last);
    await kit.started(last);
    const said = await kit.answer(stream, last);
    same("the answer's call", said.callId, last.callId);
    same("the failure's `retryable`", failureOf(said).retryable, true);
    stream.ack(last);
  }
}

async function exception(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const claim = kit.claim("crash", '{"message":"it broke in the middle"}');
  stream.give(claim);
  const { kind, message, retryable } = failureOf(await kit.answer(stream, claim));
  same("the failure's kind", FailureKind[kind], "EXCEPTION");
  const has = message.includes("it broke in the middle");
  need(has, 'a message with "it broke in the middle" in it', JSON.stringify(message));
  same("the failure's `retryable`", retryable, false);
  stream.ack(claim);
  await kit.goesOn(stream);
  await kit.until("a grant for both slots", () => stream.granted === 2);
}
