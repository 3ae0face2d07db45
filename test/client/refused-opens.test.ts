import { Reason } from "@trunkline/proto/problem";
import { expect, test } from "vitest";
import { Trunkline } from "../../client/src/index.js";
import { openedOf, outcomeOf, refusedOf } from "./support/outcome.js";
import { Peer } from "./support/peer.js";

test("whose calls a server keeps refusing for now is told so once, and the calls go on when it takes them", async () => {
  const warnings: string[] = [];
  await using peer = await Peer.start();
  await using client = new Trunkline({ url: peer.url, onWarning: (message) => warnings.push(message) });
  const results = Promise.all([1, 2].map((input) => client.runs.open("r1").call("echo", input)));
  const stream = await peer.welcomeDrive();
  let refusals = 0;
  while (warnings.length === 0) {
    const { opens } = await stream.until((frame) => frame.opens.length > 0);
    refusals += opens.length;
    stream.send({ refused: opens.map((open) => refusedOf(open, Reason.UNAVAILABLE)) });
    // Nothing is said of what lasts a moment.
    if (refusals <= 4) expect(warnings).toEqual([]);
  }
  for (let taken = 0; taken < 2;) {
    const { opens } = await stream.until((frame) => frame.opens.length > 0);
    for (const open of opens) {
      taken++;
      stream.send({ opened: [openedOf(open, taken)], outcomes: [outcomeOf(`r1/${taken}`)] });
    }
  }
  expect(await results).toEqual([null, null]);
  expect(warnings).toEqual([
    `trunkline: ${peer.url} takes no call: refused: UNAVAILABLE; calls wait until it does`,
  ]);
});
