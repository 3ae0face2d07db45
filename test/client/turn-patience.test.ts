import { afterEach, beforeEach, expect, test } from "vitest";
import { Trunkline, TurnTimeoutError } from "../../client/src/index.js";
import { Peer } from "./support/peer.js";

let peer: Peer;
let client: Trunkline;

beforeEach(async () => {
  peer = await Peer.start();
  client = new Trunkline({ url: peer.url, onWarning: () => undefined });
});

afterEach(async () => {
  await client.close();
  await peer.stop();
});

/** A turn with an open that nobody acknowledges. */
async function opening() {
  const turn = client.runs.open("r1").turn(2);
  const open = turn.open("echo", 1).catch((error: unknown) => error);
  const stream = await peer.welcomeDrive();
  await stream.until(({ opens }) => opens.length > 0);
  return { turn, open };
}

test("a turn's timeout runs out while its opens are still under way", async () => {
  const { turn } = await opening();
  const error: unknown = await turn.settled({ timeout: "50ms" }).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(TurnTimeoutError);
  expect(error).toMatchObject({
    message: "turn 2 is not settled after 50ms; still being opened here: 1",
    open: [],
    outcomes: [],
  });
});

test("a signal ends the wait for a turn whose opens are still under way, and not the opens", async () => {
  const { turn, open } = await opening();
  const leaving = new AbortController();
  const waiting = turn.settled({ signal: leaving.signal });
  leaving.abort(new Error("enough"));
  await expect(waiting).rejects.toThrow("enough");
  await client.close();
  expect(await open).toMatchObject({ reason: "CLOSED" });
});

test("a turn's timeout, and not the client's patience, bounds the wait for a server that is away", async () => {
  await peer.stop();
  const since = performance.now();
  await expect(client.runs.open("r1").turn(2).settled({ timeout: "300ms" })).rejects.toMatchObject({
    reason: "UNAVAILABLE",
  });
  expect(performance.now() - since).toBeLessThan(5_000);
});
