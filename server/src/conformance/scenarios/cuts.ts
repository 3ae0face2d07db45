import { Reason } from "@trunkline/proto/problem";
import { ClaimVerdict_Standing as Standing, type Claim } from "@trunkline/proto/worker";
import { RETURN_MS, type Kit } from "../kit.js";
import { need, same, sameText } from "../mismatch.js";
import { INTERVAL_MS, type PeerStream } from "../peer-stream.js";
import type { Scenario } from "../scenario.js";
import { resultOf } from "./answers.js";

/** Connections that break. */
export const CUTS: readonly Scenario[] = [
  { number: 10, title: "cut in mid-handler", play: cutInMidHandler },
  { number: 11, title: "outbox", play: outbox },
  { number: 12, title: "lost while away", play: lostWhileAway },
];

/** Requires a stream to be of the same process as an earlier one, and to come after it. */
export function sameProcess(before: PeerStream, now: PeerStream): void {
  const [was, is] = [before.hello, now.hello];
  if (was === undefined || is === undefined) return;
  same("the session id of the next hello", is.sessionId, was.sessionId);
  need(is.nonce === was.nonce, "the same nonce in every hello of a process", "another one");
  const isNumbered = was.number > 0n && is.number > was.number;
  need(
    isNumbered || (was.number === 0n && is.number === 0n),
    "a higher number in each hello, or 0 in all",
    `${was.number}, then ${is.number}`,
  );
}

/** Requires a hello to name these claims with their calls, and no others. */
export function names(stream: PeerStream, ...claims: readonly Claim[]): void {
  const said = (stream.hello?.claims ?? []).map(({ claimId, callId }) => `${claimId} of ${callId}`);
  const expected = claims.map(({ claimId, callId }) => `${claimId} of ${callId}`);
  same("the claims that the hello names", said.sort(), expected.sort());
}

/** It runs until its worker is back. */
const SLOW_MS = RETURN_MS + 500;

async function cutInMidHandler(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const claim = kit.claim("sleep", `{"ms":${SLOW_MS}}`);
  stream.give(claim);
  await kit.started(claim);
  stream.link.cut("rst");
  const next = await kit.arrival(RETURN_MS);
  sameProcess(stream, next);
  names(next, claim);
  same("the slots of the hello, with a handler that runs", next.hello?.slots, kit.concurrency - 1);
  next.welcome();
  sameText(
    "the result",
    resultOf(await kit.answer(next, claim, SLOW_MS)).replaceAll(/\s/g, ""),
    '{"slept":true}',
  );
  need(!kit.hasStopped(claim), "a handler that goes on", "it was stopped");
  next.ack(claim);
  await kit.until("a grant for the slot", () => next.granted === 1);
}

async function outbox(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const claim = kit.claim("echo", '{"keep":"me"}');
  stream.give(claim);
  await kit.answer(stream, claim);
  const from = stream.beats.length;
  await kit.until("a heartbeat that names the claim, whose answer has no ack", () =>
    stream.beats.slice(from).some(({ claims }) => claims.includes(claim.claimId)),
  );
  stream.link.cut("fin");

  const next = await kit.arrival(RETURN_MS);
  names(next, claim);
  same("the slots of the hello, with nothing that runs", next.hello?.slots, kit.concurrency);
  // What comes before the welcome is a breach in every scenario.
  await kit.nothing("nothing but grants before the welcome", () => undefined, INTERVAL_MS);
  next.welcome();
  const again = await kit.answer(next, claim);
  sameText("the result that is sent again", resultOf(again), claim.inputJson);
  same("its call", again.callId, claim.callId);
  next.ack(claim);
  await kit.dropped(next, claim);

  next.link.cut("rst");
  const last = await kit.arrival(RETURN_MS);
  names(last);
  last.welcome();
  await kit.calm(last, "an answer that was acknowledged not to be sent again", () =>
    last.answersTo(claim).length > 0 ? "it was sent again" : undefined,
  );
}

async function lostWhileAway(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const running = kit.claim("sleep", '{"ms":20000}');
  const answered = kit.claim("echo", '{"on":"its way"}');
  stream.give(running, answered);
  await kit.started(running);
  await kit.answer(stream, answered);
  stream.link.cut("rst");

  const next = await kit.arrival(RETURN_MS);
  names(next, running, answered);
  next.welcome(() => Standing.LOST);
  await kit.stopped(running);
  await kit.answer(next, answered);
  await kit.until("a grant for the slot of the handler that was stopped", () => next.granted === 1);
  const from = next.beats.length;
  await kit.until(
    "a heartbeat that names the claim of the answer, which has no ack, and not the lost one",
    () =>
      next.beats
        .slice(from)
        .some(({ claims }) => claims.length === 1 && claims.every((id) => id === answered.claimId)),
  );
  next.ack(answered, Reason.CLAIM_LOST);
  await kit.dropped(next, answered);
  await kit.calm(next, "no answer to a claim that was lost, and none again that was refused", () => {
    if (next.answersTo(running).length > 0) return `an answer to ${running.claimId}`;
    return next.answersTo(answered).length > 1 ? `${answered.claimId} was answered again` : undefined;
  });
}
