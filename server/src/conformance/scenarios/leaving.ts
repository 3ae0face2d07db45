import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { RevokeReason, type Claim } from "@trunkline/proto/worker";
import { RETURN_MS, type Kit } from "../kit.js";
import { need, same } from "../mismatch.js";
import type { PeerStream } from "../peer-stream.js";
import type { Scenario } from "../scenario.js";
import { sameProcess } from "./cuts.js";

/** Workers that leave, and servers that do. */
export const LEAVING: readonly Scenario[] = [
  { number: 17, title: "drain", play: drain },
  { number: 18, title: "goaway", play: goaway },
];

const RUN_MS = 1_500;

async function drain(kit: Kit): Promise<void> {
  const program = kit.start();
  const stream = await kit.arrival();
  stream.welcome();
  const running = kit.claim("sleep", `{"ms":${RUN_MS}}`);
  const waiting = kit.claim("echo", "1", { confirm: true });
  const late = kit.claim("echo", "2");
  stream.give(running, waiting);
  await kit.started(running);
  await kit.accepted(stream, waiting);
  program.terminate();
  await kit.until("`drain` after SIGTERM", () => stream.drains);
  // It was under way.
  stream.give(late);
  for (const claim of [waiting, late]) {
    const what = `${claim.claimId}, which did not start, to be released`;
    await kit.heard(stream, what, () => stream.hasReleased(claim));
    stream.ack(claim);
  }
  await kit.answer(stream, running, RUN_MS);
  const isHere = (): string | undefined => (stream.halfClosed ? "it closed its side" : undefined);
  await kit.calm(stream, "the worker to wait for the ack of its answer", isHere);
  stream.ack(running);
  await kit.calm(stream, "the worker to wait for `drained`", isHere);
  same("starts of what was released", kit.starts(waiting) + kit.starts(late), 0);
  kit.mayExit = true;
  stream.send({ drained: {} });
  await kit.until("the worker to close its side after `drained`", () => stream.halfClosed || stream.over);
  stream.end();
  const { status, signal } = await kit.exit(program, "after `drained`");
  need(status === 0, "the program to end with 0", status === null ? (signal ?? "a signal") : String(status));
}

/** Handlers that end while the new stream waits for its welcome, and soon after it. */
const QUICK_MS = 1_500;
const SLOW_MS = 2_300;
/** What the welcome may take to be read. */
const MARGIN_MS = 400;

async function goaway(kit: Kit): Promise<void> {
  const old = await kit.begin();
  const quick = kit.claim("sleep", `{"ms":${QUICK_MS}}`);
  const slow = kit.claim("sleep", `{"ms":${SLOW_MS}}`);
  const endless = kit.claim("sleep", '{"ms":20000}');
  const slowEndsMs = kit.nowMs + SLOW_MS;
  old.give(quick, slow, endless);
  for (const claim of [quick, slow, endless]) await kit.started(claim);
  old.send({ goaway: { message: "going", deadline: durationFromMs(20_000) } });
  const next = await kit.arrival(RETURN_MS);
  need(next.link !== old.link, "the next stream on a new connection", "a stream on the old one");
  sameProcess(old, next);
  need(next.named.includes(endless.claimId), `a hello that names ${endless.claimId}`, "one without it");
  const runs = kit.concurrency - (next.hello?.slots ?? 0);

  await kit.answer(old, quick, QUICK_MS);
  old.ack(quick);
  next.welcome();
  const isInTime = slowEndsMs - kit.nowMs > MARGIN_MS;
  // It may have been answered on the old one when the worker took its time to come.
  const isAnswered = (): boolean => old.answersTo(slow).length > 0 && !isInTime;
  await revokedOnOld(kit, old, endless);
  await kit.until("an answer on the new stream, after its welcome", () => {
    if (isInTime) same("answers on the old stream after that", old.answersTo(slow).length, 0);
    return next.answersTo(slow).length > 0 || isAnswered();
  });
  old.end();
  await kit.until(`a grant on the new stream for each of ${runs} handlers`, () => next.granted === runs);
  // Items are sent again where the welcome was read before their acks.
  for (const claim of [quick, slow]) next.ack(claim);
  await kit.dropped(next, quick, slow, endless);
  await kit.goesOn(next);
  same("streams", kit.streams.length, 2);
}

/** The old stream is read to its end, and what is said there counts. */
async function revokedOnOld(kit: Kit, old: PeerStream, claim: Claim): Promise<void> {
  need(!old.over, "the old stream to be read to its end", "the worker ended it");
  old.send({ revoked: [{ claimId: claim.claimId, reason: RevokeReason.SETTLED }] });
  await kit.stopped(claim);
}
