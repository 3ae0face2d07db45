import { RETURN_MS, type Kit } from "../kit.js";
import { Mismatch, need } from "../mismatch.js";
import { INTERVAL_MS } from "../peer-stream.js";
import type { Scenario } from "../scenario.js";
import { names, sameProcess } from "./cuts.js";

/** Servers that say nothing, are away, or refuse. */
export const OUTAGES: readonly Scenario[] = [
  { number: 15, title: "silent server", play: silentServer },
  { number: 23, title: "server away", play: serverAway },
  { number: 24, title: "refused key", play: refusedKey },
];

/** Silence that is no reason to go yet: not even two intervals. */
const PATIENT_MS = 1.5 * INTERVAL_MS;
/** Three intervals of silence, one that had begun before it, and a moment. */
const DROPPED_MS = 5 * INTERVAL_MS;
const AWAY_MS = 3_000;
const WORK = '{"ms":20000}';

async function silentServer(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const claim = kit.claim("sleep", WORK);
  stream.give(claim);
  await kit.started(claim);
  const { link } = stream;
  const since = kit.nowMs;
  link.silence();
  await kit.until(
    "the worker to drop a connection that was silent for three intervals",
    () => link.endedBy !== undefined,
    DROPPED_MS,
  );
  const after = kit.nowMs - since;
  need(
    after >= PATIENT_MS,
    "a connection to be kept for three silent intervals",
    `it was dropped after ${after.toFixed(0)} ms`,
  );
  const next = await kit.arrival(RETURN_MS);
  need(next.link !== link, "the next stream on a new connection", "the same one");
  sameProcess(stream, next);
  names(next, claim);
  next.welcome();
  await kit.goesOn(next);
}

async function serverAway(kit: Kit): Promise<void> {
  const stream = await kit.begin();
  const claim = kit.claim("sleep", WORK);
  stream.give(claim);
  await kit.started(claim);
  const { door } = kit.peer;
  await door.shut();
  await kit.nothing(
    "the handler to go on",
    () => (kit.hasStopped(claim) ? "it stopped" : undefined),
    AWAY_MS,
  );
  kit.refuse("UNAVAILABLE");
  await door.open();
  await kit.until("a stream after the port is open again", () => kit.refusals > 0, RETURN_MS);
  kit.refuse(undefined);
  const next = await kit.arrival(RETURN_MS);
  sameProcess(stream, next);
  names(next, claim);
  next.welcome();
  await kit.goesOn(next);
}

async function refusedKey(kit: Kit): Promise<void> {
  kit.refuse("UNAUTHENTICATED");
  kit.mayExit = true;
  await ended(kit, kit.start(), "UNAUTHENTICATED");

  kit.refuse(undefined);
  kit.mayExit = false;
  const program = kit.start();
  const stream = await kit.arrival();
  stream.welcome();
  await kit.goesOn(stream);
  kit.refuse("PERMISSION_DENIED");
  kit.mayExit = true;
  stream.link.cut("rst");
  await ended(kit, program, "PERMISSION_DENIED");
}

async function ended(kit: Kit, program: ReturnType<Kit["start"]>, refusal: string): Promise<void> {
  const expected = `the program to end with a code other than 0 after ${refusal}, without another try`;
  await kit.until(`a stream, to be refused with ${refusal}`, () => kit.refusals > 0, kit.helloMs);
  const end = await kit.until(expected, () => {
    if (kit.refusals > 1) throw new Mismatch(expected, "another try");
    return program.end;
  });
  const { status, signal } = end;
  need(
    status !== 0 && status !== null,
    expected,
    status === null ? `it ended by ${signal ?? "?"}` : "code 0",
  );
}
