import { describe, expect, test } from "vitest";
import type { ToolContext } from "../../client/src/index.js";
import { ackOf, answerOn, benches, DRAINED } from "./support/bench.js";
import { claimOf, gate } from "./support/claim.js";
import { CARRIAGES } from "./support/peer.js";

describe.each(CARRIAGES)("by %s,", (carriage) => {
  const bench = benches(carriage);

  /** Runs a handler that ends, and keeps its context for later. */
  async function ended() {
    const ran = gate<ToolContext>();
    const worker = bench().start({
      echo: (_, ctx) => {
        ran.open(ctx);
        return 1;
      },
    });
    const { stream } = await bench().peer.welcomeWork();
    const claim = claimOf();
    stream.send({ claims: [claim] });
    const answer = await answerOn(stream);
    return { worker, stream, claim, answer, ctx: await ran.promise };
  }

  test("a deferral after the handler's end is refused, and takes nothing of its answer's place", async () => {
    const { worker, stream, claim, answer, ctx } = await ended();
    expect(answer.outcome).toMatchObject({ value: "1" });
    await expect(ctx.defer()).rejects.toMatchObject({
      reason: "CLAIM_LOST",
      message: expect.stringContaining("ended"),
    });
    const stopped = worker.stop();
    const frame = await stream.until(({ drain }) => drain !== undefined);
    expect(frame.deferrals).toEqual([]);
    stream.send({ acks: [ackOf(claim.claimId)], ...DRAINED });
    await stream.farewell();
    await stopped;
    expect(bench().errors).toEqual([]);
  });

  test("a deferral between the handler's end and its answer's frame is not sent in its place", async () => {
    const late = gate<unknown>();
    bench().start({
      echo: (_, ctx) => {
        void (async () => {
          // The return is taken in these turns of the microtasks, and the event loop does not turn.
          for (let turn = 0; turn < 4; turn++) await Promise.resolve();
          await ctx.defer().then(late.open, (refusal: unknown) => late.open(refusal));
        })();
        return 1;
      },
    });
    const { stream } = await bench().peer.welcomeWork();
    stream.send({ claims: [claimOf()] });
    const frame = await stream.until(({ answers, deferrals }) => answers.length + deferrals.length > 0);
    expect(frame.deferrals).toEqual([]);
    expect(frame.answers).toMatchObject([{ outcome: { value: "1" } }]);
    expect(await late.promise).toMatchObject({ reason: "CLAIM_LOST" });
  });
});
