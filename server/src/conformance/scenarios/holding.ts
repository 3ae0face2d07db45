import { RevokeReason, type Claim } from "@trunkline/proto/worker";
import { RETURN_MS, type Kit } from "../kit.js";
import { Mismatch, need, same } from "../mismatch.js";
import { INTERVAL_MS, type Beat, type PeerStream } from "../peer-stream.js";
import type { Scenario } from "../scenario.js";

/** How claims are kept, and how they end without the worker's doing. */
export const HOLDING: readonly Scenario[] = [
  { number: 13, title: "revoked", play: revoked },
  { number: 14, title: "heartbeats", play: heartbeats },
  { number: 16, title: "credit", concurrency: 2, play: credit },
];

const LONG = '{"ms":20000}';

async function revoked(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const running = kit.claim("sleep", LONG);
  const unstarted = kit.claim("echo", "1", { confirm: true });
  const answered = kit.claim("echo", "2");
  const revoke = ({ claimId }: Claim): void =>
    stream.send({ revoked: [{ claimId, reason: RevokeReason.CANCELED }] });

  stream.give(running, unstarted);
  await kit.started(running);
  await kit.accepted(stream, unstarted);
  revoke(running);
  revoke(unstarted);
  stream.send({ confirmed: [unstarted.claimId] });
  await kit.stopped(running);
  await kit.dropped(stream, running, unstarted);
  await kit.until("a grant for the slots of both claims", () => stream.granted >= 2);

  stream.give(answered);
  await kit.answer(stream, answered);
  revoke(answered);
  await kit.calm(stream, "no start and no answer of claims that were revoked", () => {
    if (kit.starts(unstarted) > 0) return `${unstarted.claimId} was started`;
    return stream.answersTo(running).length > 0 ? `an answer to ${running.claimId}` : undefined;
  });
  const last = stream.beats.at(-1)?.claims;
  same("the claims of a heartbeat, with an answer under way whose claim was revoked", last, [
    answered.claimId,
  ]);
  stream.ack(answered);
  await kit.dropped(stream, answered);
  await kit.goesOn(stream);
  await kit.until("four grants for four slots", () => stream.granted === 4);
}

async function heartbeats(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  await beats(kit, stream, 2, []);
  const running = kit.claim("sleep", LONG);
  const answered = kit.claim("echo", "1");
  const waiting = kit.claim("echo", "2", { confirm: true });
  stream.give(running, answered, waiting);
  await kit.started(running);
  await kit.answer(stream, answered);
  await kit.accepted(stream, waiting);
  await beats(kit, stream, 3, [running, answered, waiting]);
  stream.ack(answered);
  await kit.dropped(stream, answered);
  await beats(kit, stream, 2, [running, waiting]);
  stream.lost = [running.claimId];
  await kit.stopped(running);
  await kit.dropped(stream, running);
  await beats(kit, stream, 2, [waiting]);
  same("answers to a claim that was called lost", stream.answersTo(running).length, 0);
  same("grants, for an answer and a lost claim", stream.granted, 2);
}

/** Waits for so many heartbeats, each in time after the one before, with exactly these claims. */
async function beats(kit: Kit, stream: PeerStream, count: number, claims: readonly Claim[]): Promise<void> {
  const ids = claims.map(({ claimId }) => claimId).sort();
  for (let left = count; left > 0; left--) {
    const from = stream.beats.length;
    const beat = await kit.until<Beat>(
      "a heartbeat in every interval",
      () => stream.beats[from],
      2 * INTERVAL_MS,
    );
    same("the claims of a heartbeat, sorted", [...beat.claims].sort(), ids);
  }
}

const HANDLER_MS = 600;
/** Timers of two programs do not agree to the last millisecond. */
const EARLY_MS = 50;
const SLOW_MS = RETURN_MS + 1_500;

async function credit(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  await earnGrants(kit, stream);

  const quick = kit.claim("sleep", `{"ms":${HANDLER_MS / 2}}`);
  const slow = kit.claim("sleep", `{"ms":${SLOW_MS}}`);
  stream.give(quick, slow);
  await kit.started(quick);
  await kit.started(slow);
  // One handler ends while there is no stream: the next hello counts its slot.
  await kit.peer.door.shut();
  await kit.nothing("the handlers to go on", () => undefined, HANDLER_MS);
  await kit.peer.door.open();
  const next = await kit.arrival(RETURN_MS);
  same("the slots of the hello, with one of two handlers running", next.hello?.slots, 1);
  next.welcome();
  await kit.calm(next, "no grant for slots that the hello has counted", () =>
    next.granted > 0 ? `grant ${next.granted}` : undefined,
  );
  await kit.answer(next, quick);
  next.ack(quick);
  await kit.answer(next, slow, SLOW_MS);
  next.ack(slow);
  await kit.until("a grant for the slot of the handler that has ended", () => next.granted === 1);
  await kit.calm(next, "one grant for a slot", () =>
    next.granted > 1 ? `${next.granted} grants` : undefined,
  );
}

/** Gives a claim for each grant, and watches that no slot is granted before its handler can have ended. */
async function earnGrants(kit: Kit, stream: PeerStream): Promise<void> {
  const total = 3 * kit.concurrency;
  const given: { readonly claim: Claim; readonly atMs: number }[] = [];
  const give = (): void => {
    const claim = kit.claim("sleep", `{"ms":${HANDLER_MS}}`);
    given.push({ claim, atMs: kit.nowMs });
    stream.give(claim);
  };
  const checked = (): boolean => {
    const over = given.filter(({ atMs }) => kit.nowMs - atMs >= HANDLER_MS - EARLY_MS).length;
    if (stream.granted <= over) return true;
    const expected = `a grant for each slot that becomes free, and handlers that take ${HANDLER_MS} ms`;
    throw new Mismatch(expected, `${stream.granted} grants when ${over} can have ended`);
  };
  while (given.length < kit.concurrency) give();
  while (given.length < total) {
    await kit.until(
      "a grant for each slot that became free",
      () => checked() && stream.granted > given.length - kit.concurrency,
    );
    give();
  }
  for (const { claim } of given) {
    await kit.answer(stream, claim);
    stream.ack(claim);
  }
  await kit.until("all slots to be granted", () => checked() && stream.granted === total);
  await kit.calm(stream, "one grant for each slot", () => {
    need(stream.granted === total, `${total} grants`, String(stream.granted));
    return undefined;
  });
}
