import { ClaimVerdict_Standing as Standing, type Claim } from "@trunkline/proto/worker";
import { RETURN_MS, type Kit } from "../kit.js";
import { need, same } from "../mismatch.js";
import type { PeerStream } from "../peer-stream.js";
import type { Scenario } from "../scenario.js";

/** When handlers start, and how often. */
export const STARTS: readonly Scenario[] = [
  { number: 8, title: "confirmed start", play: confirmedStart },
  { number: 9, title: "delivered twice", play: deliveredTwice },
];

async function confirmedStart(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const first = kit.claim("sleep", '{"ms":300}', { confirm: true });
  const second = kit.claim("echo", "2", { confirm: true });
  const third = kit.claim("echo", "3", { confirm: true });
  stream.give(first);
  await kit.accepted(stream, first);
  await kit.calm(stream, "no start before `confirmed`", () => started(kit, first));
  confirm(stream, first);
  confirm(stream, first);
  await kit.started(first);
  confirm(stream, first);
  await kit.answer(stream, first);
  stream.ack(first);

  stream.give(second, third);
  await kit.accepted(stream, second);
  await kit.accepted(stream, third);
  stream.link.cut("rst");
  const next = await kit.arrival(RETURN_MS);
  same("the claims that the hello names", [...next.named].sort(), [second.claimId, third.claimId]);
  next.welcome((claimId) => (claimId === second.claimId ? Standing.CONFIRMED : Standing.KEPT));
  confirm(next, second);
  await kit.started(second);
  await kit.calm(next, "no start before `confirmed`, with the verdict KEPT", () => started(kit, third));
  confirm(next, third);
  for (const claim of [second, third]) {
    await kit.answer(next, claim);
    next.ack(claim);
  }
  await kit.calm(next, "one start for each claim", () => startedTwice(kit, [first, second, third]));
}

/** It runs until its worker is back. */
const SLOW_MS = RETURN_MS + 1_000;

async function deliveredTwice(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const quick = kit.claim("echo", "1");
  const slow = kit.claim("sleep", `{"ms":${SLOW_MS}}`);
  const twice = (): string | undefined => startedTwice(kit, [quick, slow]);
  stream.give(quick, slow);
  stream.give(slow);
  await kit.started(slow);
  await kit.answer(stream, quick);
  stream.give(quick);
  await kit.calm(stream, "one start of a claim that came twice", twice);
  stream.link.cut("rst");
  const next = await kit.arrival(RETURN_MS);
  next.welcome();
  next.give(slow, quick);
  await kit.answer(next, quick);
  next.ack(quick);
  await kit.answer(next, slow, SLOW_MS);
  next.ack(slow);
  await kit.calm(next, "one start of a claim that came again after a reconnect", twice);
  need(kit.starts(slow) === 1, "one start", String(kit.starts(slow)));
}

function confirm(stream: PeerStream, { claimId }: Claim): void {
  stream.send({ confirmed: [claimId] });
}

function started(kit: Kit, claim: Claim): string | undefined {
  return kit.starts(claim) > 0 ? `${claim.claimId} was started` : undefined;
}

function startedTwice(kit: Kit, claims: readonly Claim[]): string | undefined {
  const claim = claims.find((each) => kit.starts(each) > 1);
  return claim && `${claim.claimId} was started ${String(kit.starts(claim))} times`;
}
