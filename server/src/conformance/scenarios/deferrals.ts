import { durationMs } from "@bufbuild/protobuf/wkt";
import { Reason } from "@trunkline/proto/problem";
import type { Claim } from "@trunkline/proto/worker";
import type { Kit } from "../kit.js";
import { Mismatch, need, same } from "../mismatch.js";
import type { PeerStream } from "../peer-stream.js";
import type { Scenario } from "../scenario.js";

/** Calls that are handed over for a token. */
export const DEFERRALS: readonly Scenario[] = [
  { number: 6, title: "deferral", play: deferral },
  { number: 7, title: "refused deferral", play: refusedDeferral },
];

/** 256 bits in base64url. */
const SECRET = /^[A-Za-z0-9_-]{43}$/;
const TIMEOUT_MS = 60_000;

async function deferral(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const timed = kit.claim("defer", `{"timeout_ms":${TIMEOUT_MS}}`);
  const secret = await handedOver(kit, stream, timed, TIMEOUT_MS);
  const open = kit.claim("defer", '{"timeout_ms":0}');
  const other = await handedOver(kit, stream, open, undefined);
  need(secret !== other, "another secret for each call", "the same one again");
  await kit.until("a grant for both slots", () => stream.granted >= 2);
  await kit.calm(stream, "no answer to a call that was handed over, and two grants", () => {
    if (stream.granted > 2) return `${stream.granted} grants`;
    const answered = [timed, open].find((claim) => stream.answersTo(claim).length > 0);
    return answered && `an answer to ${answered.claimId}`;
  });
}

/** Plays a deferral that is stored; gives its secret. */
async function handedOver(
  kit: Kit,
  stream: PeerStream,
  claim: Claim,
  timeoutMs: number | undefined,
): Promise<string> {
  stream.give(claim);
  const { secret, callId, timeout } = await deferred(kit, stream, claim);
  need(SECRET.test(secret), "a secret of 43 characters of base64url", JSON.stringify(secret));
  same("the deferral's call", callId, claim.callId);
  same("the deferral's timeout in ms", timeout && durationMs(timeout), timeoutMs);
  await kit.calm(stream, "no token before the deferral is acknowledged", () => printedToken(kit, claim));
  stream.send({ acks: [{ claimId: claim.claimId, deferred: {} }] });
  await kit.printed(`token ${claim.callId}.${claim.attempt}.${secret}`);
  await kit.dropped(stream, claim);
  return secret;
}

async function deferred(
  kit: Kit,
  stream: PeerStream,
  claim: Claim,
): Promise<ReturnType<PeerStream["deferralsOf"]>[number]> {
  return kit.heard(stream, `a deferral of ${claim.claimId}`, () => {
    if (stream.answersTo(claim).length > 0) throw new Mismatch("a deferral", "an answer");
    return stream.deferralsOf(claim)[0];
  });
}

function printedToken(kit: Kit, { callId }: Claim): string | undefined {
  return kit.lines.find((line) => line.startsWith(`token ${callId}.`));
}

async function refusedDeferral(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const claim = kit.claim("defer", `{"timeout_ms":${TIMEOUT_MS}}`);
  stream.give(claim);
  await deferred(kit, stream, claim);
  stream.ack(claim, Reason.LIMIT_EXCEEDED);
  await kit.goesOn(stream);
  await kit.until("a grant for both slots", () => stream.granted === 2);
  await kit.calm(stream, "no token for a deferral that was refused", () => printedToken(kit, claim));
}
