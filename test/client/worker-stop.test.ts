import { describe, expect, test } from "vitest";
import { ackOf, answerOn, benches, DRAINED } from "./support/bench.js";
import { claimOf, gate } from "./support/claim.js";

const bench = benches();

describe("stop", () => {
  test("hands back what has not started, finishes what has, beats to the end, and closes after drained (B13)", async () => {
    const finish = gate();
    let starts = 0;
    const stopping = bench().start({
      echo: () => {
        starts++;
        return finish.promise.then(() => "done");
      },
    });
    const { stream } = await bench().peer.welcomeWork();
    const [running, waiting, late] = [claimOf(), claimOf({ confirm: true }), claimOf()];
    stream.send({ claims: [running, waiting] });
    await stream.until(({ accepted }) => accepted.length === 2);
    const stopped = stopping.stop();
    expect(stopping.stop()).toBe(stopped);
    const drain = await stream.until((frame) => frame.drain !== undefined);
    expect(drain).toMatchObject({ releases: [waiting.claimId], grant: 0 });
    // What comes after is handed back at once, and a confirmation of what was handed back starts nothing.
    stream.send({ claims: [late], confirmed: [waiting.claimId] });
    expect((await stream.until(({ releases }) => releases.length > 0)).releases).toEqual([late.claimId]);
    stream.send({ acks: [ackOf(waiting.claimId), ackOf(late.claimId)] });
    await stream.until(({ heartbeat }) => heartbeat?.claims.join() === running.claimId);
    finish.open();
    await answerOn(stream);
    stream.send({ acks: [ackOf(running.claimId)], ...DRAINED });
    await stream.halfClosed();
    stream.end();
    await stopped;
    expect(starts).toBe(1);
    expect(bench().errors).toEqual([]);
  });

  test("a claim of which the stop came before its first turn is handed back, not run", async () => {
    let starts = 0;
    const signal = new AbortController();
    bench().start({ echo: () => ++starts, bye: () => signal.abort() }, { signal: signal.signal });
    const { stream } = await bench().peer.welcomeWork();
    const [bye, never] = [claimOf({ tool: "bye" }), claimOf()];
    stream.send({ claims: [bye, never] });
    const { releases } = await stream.until((frame) => frame.releases.length > 0);
    expect(releases).toEqual([never.claimId]);
    expect(starts).toBe(0);
  });

  test("with nothing to do and no server it resolves at once", async () => {
    await bench().peer.stop();
    await bench()
      .start({ echo: () => 1 })
      .stop();
  });

  test("with an answer that cannot be delivered it gives up after its bound and says which", async () => {
    const stopping = bench().start({ echo: () => 1 });
    const { stream } = await bench().peer.welcomeWork();
    const claim = claimOf();
    stream.send({ claims: [claim] });
    await answerOn(stream);
    await bench().peer.stop();
    const since = performance.now();
    await stopping.stop();
    expect(performance.now() - since).toBeLessThan(15_000);
    expect(bench().errors).toMatchObject([{ message: expect.stringContaining(claim.callId) }]);
  });

  test("with a timeout it does not wait for handlers that never end", async () => {
    const aborted = gate<unknown>();
    const stopping = bench().start({
      echo: (_, ctx) => {
        ctx.signal.addEventListener("abort", () => aborted.open(ctx.signal.reason));
        return new Promise(() => undefined);
      },
    });
    const { stream } = await bench().peer.welcomeWork();
    stream.send({ claims: [claimOf()] });
    await stream.next();
    await stopping.stop({ timeout: "50ms" });
    expect(await aborted.promise).toMatchObject({ reason: "TIMEOUT" });
  });
});
