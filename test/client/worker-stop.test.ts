import { describe, expect, test } from "vitest";
import { acceptedOn, ackOf, answerOn, benches, DRAINED, holdingOn } from "./support/bench.js";
import { claimOf, gate } from "./support/claim.js";
import { CARRIAGES, type WorkPeer } from "./support/peer.js";

/** What a worker hands back as it asks to be drained, in whichever order; it grants nothing. */
async function drainOn(stream: WorkPeer): Promise<string[]> {
  const handedBack: string[] = [];
  for (let asked = false; !asked || handedBack.length === 0;) {
    const { drain, releases, grant } = await stream.next();
    expect(grant).toBe(0);
    handedBack.push(...releases);
    asked ||= drain !== undefined;
  }
  return handedBack;
}

describe.each(CARRIAGES)("stop by %s", (carriage) => {
  const bench = benches(carriage);

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
    const [running, waiting] = [claimOf(), claimOf({ confirm: true })];
    stream.send({ claims: [running, waiting] });
    await stream.until(({ accepted }) => accepted.length === 2);
    const stopped = stopping.stop();
    expect(stopping.stop()).toBe(stopped);
    expect(await drainOn(stream)).toEqual([waiting.claimId]);
    // A confirmation of what was handed back starts nothing.
    stream.send({ confirmed: [waiting.claimId] });
    await stream.until(({ heartbeat }) => heartbeat !== undefined);
    stream.send({ acks: [ackOf(waiting.claimId)] });
    await holdingOn(stream, running);
    finish.open();
    await answerOn(stream);
    stream.send({ acks: [ackOf(running.claimId)], ...DRAINED });
    await stream.farewell();
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
    await acceptedOn(stream);
    await stopping.stop({ timeout: "50ms" });
    expect(await aborted.promise).toMatchObject({ reason: "TIMEOUT" });
  });
});

describe("stop by stream", () => {
  const bench = benches();

  // By polls no claim comes after the drain: the request that could bring one is given up.
  test("hands back at once what comes after the drain", async () => {
    const stopping = bench().start({ echo: () => 1 });
    const { stream } = await bench().peer.welcomeWork();
    const stopped = stopping.stop();
    await stream.until(({ drain }) => drain !== undefined);
    const late = claimOf();
    stream.send({ claims: [late] });
    expect((await stream.until(({ releases }) => releases.length > 0)).releases).toEqual([late.claimId]);
    stream.send({ acks: [ackOf(late.claimId)], ...DRAINED });
    await stream.farewell();
    await stopped;
  });

  // It takes its ten seconds, and the bound knows nothing of what carries the answers.
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
});
