import { ClaimVerdict_Standing } from "@trunkline/proto/worker";
import { describe, expect, test } from "vitest";
import { newIdentity, RawWorker } from "../support/raw-worker.js";
import { until } from "../support/until.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();

async function twoNodes() {
  const [one, two] = await Promise.all([nodes.start(), nodes.start()]);
  return { one, two, run: await nodes.client(one.url).runs.create() };
}

/** Says a heartbeat as often as the server wants it, naming the claims that it was sent. */
function beating(worker: RawWorker): Disposable {
  const timer = setInterval(
    () => worker.send({ heartbeat: { claims: worker.all("claims").map(({ claimId }) => claimId) } }),
    200,
  );
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

describe("a session", () => {
  test("that has a stream on one node is refused to another process on the other: SESSION_IN_USE", async () => {
    const { one, two } = await twoNodes();
    const who = newIdentity();
    await using first = await RawWorker.connect(one.url, ["echo"], 1, who);
    using _ = beating(first);
    await using second = RawWorker.hello(two.url, ["echo"], 1, { ...who, nonce: newIdentity().nonce });
    expect(String(await second.ended)).toMatch(/has an open stream of another process/);
    first.send({ drain: {} });
    await first.frame("drained", ({ drained }) => drained !== undefined);
  });

  test("moves to the node where its process says hello; the older stream ends and its claim is kept", async () => {
    const { one, two, run } = await twoNodes();
    const who = newIdentity();
    await using first = await RawWorker.connect(one.url, ["moved"], 1, who);
    using _first = beating(first);
    const call = await run.open("moved");
    const claims = await first.some("claims", 1);
    const claimId = claims[0]?.claimId ?? "";
    first.send({ accepted: [claimId] });
    await using second = RawWorker.hello(two.url, ["moved"], 0, who, claims);
    const { welcome } = await second.frame("the welcome", (frame) => frame.welcome !== undefined);
    expect(welcome?.verdicts).toMatchObject([{ claimId, standing: ClaimVerdict_Standing.KEPT }]);
    expect(String(await first.ended)).toMatch(/said hello on another stream/);
    second.send({ answers: [{ claimId, callId: call.id, outcome: { case: "resultJson", value: "1" } }] });
    expect(await call.outcome()).toMatchObject({ state: "succeeded", attempt: 1 });
  });

  test("of a process that died with its node is taken over by the next process, once the node counts as dead", async () => {
    const { one, two } = await twoNodes();
    const who = newIdentity();
    await using first = await RawWorker.connect(one.url, ["echo"], 1, who);
    await one.kill();
    await first.ended;
    const nonce = newIdentity().nonce;
    await until("the session is taken over", async () => {
      await using next = RawWorker.hello(two.url, ["echo"], 1, { ...who, nonce });
      const welcomed = next.frame("the welcome", ({ welcome }) => welcome !== undefined);
      welcomed.catch(() => undefined);
      return await Promise.race([welcomed.then(() => true), next.ended.then(() => false)]);
    });
  });
});
