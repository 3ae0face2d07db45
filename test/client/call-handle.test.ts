import { CallState } from "@trunkline/proto/model";
import { expect, test } from "vitest";
import { Trunkline } from "../../client/src/index.js";
import { openedOf, outcomeOf } from "./support/outcome.js";
import { Peer } from "./support/peer.js";

test.each([
  [{ sginal: AbortSignal.abort() }, /^options: "sginal"; allowed are signal/],
  [{ signal: "stop" }, /^signal: string is not an AbortSignal/],
  [null, /^options: null is not an object/],
])("a wait with the options %j is refused, and leaves nobody waiting", async (options, refusal) => {
  await using peer = await Peer.start();
  await using client = new Trunkline({ url: peer.url, onWarning: () => undefined });
  const opening = client.runs.open("r1").open("echo");
  const stream = await peer.welcomeDrive();
  stream.send({ opened: [openedOf((await stream.until(({ opens }) => opens.length > 0)).opens[0]!, 1)] });
  const handle = await opening;
  // What comes from JavaScript may be anything.
  await expect(handle.outcome(options as never)).rejects.toThrow(refusal);
  const ended = handle.outcome();
  stream.send({ outcomes: [outcomeOf("r1/1", { state: CallState.SUCCEEDED, resultJson: "1" })] });
  expect(await ended).toMatchObject({ result: 1 });
});

test("a request with a signal that is none is refused before anything is sent", async () => {
  await using peer = await Peer.start();
  await using client = new Trunkline({ url: peer.url });
  await expect(client.calls.get("r1/1", { signal: "stop" as never })).rejects.toMatchObject({
    reason: "INVALID_FIELD",
    message: expect.stringMatching(/^signal: string is not an AbortSignal/),
  });
  expect(peer.connections).toBe(0);
});

test("an option of a client that does not exist is refused, so that no key is silently left out", () => {
  expect(() => new Trunkline({ apiKey: "tl_secret" } as never)).toThrow(
    /^options: "apiKey"; allowed are url, key, tls, transport, retryFor, onWarning$/,
  );
});
