import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { RevocationSchema, RevokeReason } from "@trunkline/proto/worker";
import { describe, expect, test } from "vitest";
import { Trunkline, type ToolContext, type WorkerOptions } from "../../client/src/index.js";
import { acceptedOn, ackOf, answerOn, benches, doneOn, freedOn, holdingOn } from "./support/bench.js";
import { claimOf, gate } from "./support/claim.js";
import { CARRIAGES } from "./support/peer.js";

describe.each(CARRIAGES)("a worker by %s", (carriage) => {
  const bench = benches(carriage);

  test("says who it is, what it runs and how many slots are free, with its key in the header", async () => {
    bench().start({ echo: () => 1, "crm.find": () => 2 }, { concurrency: 3, name: "w1", toolset: "shop" });
    const { stream, hello } = await bench().peer.welcomeWork();
    expect(stream.header.get("authorization")).toBe("Bearer k1");
    expect(hello).toMatchObject({ worker: "w1", toolset: "shop", slots: 3, claims: [] });
    expect(hello.tools).toEqual(["echo", "crm.find"]);
    expect(hello.nonce.length).toBeGreaterThanOrEqual(16);
  });

  test("accepts a claim before its handler starts, answers, and grants the slot back", async () => {
    const started = gate<unknown>();
    const finish = gate<string>();
    const echo = async (input: unknown) => {
      started.open(input);
      return { said: await finish.promise };
    };
    bench().start({ echo }, { concurrency: 1 });
    const { stream } = await bench().peer.welcomeWork({ heartbeatInterval: durationFromMs(60_000) });
    const claim = claimOf({ inputJson: '{"a":1}' });
    stream.send({ claims: [claim] });
    expect(await acceptedOn(stream)).toEqual([claim.claimId]);
    expect(await started.promise).toEqual({ a: 1 });
    finish.open("hi");
    expect(await doneOn(stream)).toMatchObject({
      answer: {
        claimId: claim.claimId,
        callId: claim.callId,
        outcome: { case: "resultJson", value: '{"said":"hi"}' },
      },
      grant: 1,
    });
  });

  test("a claim marked confirm starts one handler, after the first of two confirmations (I3)", async () => {
    let starts = 0;
    bench().start({ echo: () => ++starts });
    const { stream } = await bench().peer.welcomeWork();
    const claim = claimOf({ confirm: true });
    stream.send({ claims: [claim] });
    expect(await acceptedOn(stream)).toEqual([claim.claimId]);
    await stream.until(({ heartbeat }) => heartbeat?.claims.includes(claim.claimId) === true);
    expect(starts).toBe(0);
    stream.send({ confirmed: [claim.claimId] });
    stream.send({ confirmed: [claim.claimId] });
    await answerOn(stream);
    stream.send({ confirmed: [claim.claimId] });
    stream.send({ acks: [ackOf(claim.claimId)] });
    await holdingOn(stream);
    expect(starts).toBe(1);
  });

  test("every heartbeat names all claims held, also those whose answer is not acknowledged", async () => {
    const never = gate();
    bench().start({ echo: () => "done", wait: () => never.promise });
    const { stream } = await bench().peer.welcomeWork();
    const [quick, slow] = [claimOf(), claimOf({ tool: "wait" })];
    stream.send({ claims: [quick, slow] });
    await answerOn(stream);
    const { heartbeat } = await stream.until((frame) => frame.heartbeat !== undefined);
    expect(heartbeat?.claims).toEqual([quick.claimId, slow.claimId]);
    stream.send({ acks: [ackOf(quick.claimId)] });
    await holdingOn(stream, slow);
  });

  test("progress goes with a heartbeat at once, and what is no JSON is refused to the handler", async () => {
    const never = gate();
    const refused = gate<unknown>();
    bench().start({
      echo: (_, ctx) => {
        ctx.heartbeat({ done: 0.5 });
        try {
          ctx.heartbeat({ done: NaN });
        } catch (error) {
          refused.open(error);
        }
        return never.promise;
      },
    });
    const { stream } = await bench().peer.welcomeWork({ heartbeatInterval: durationFromMs(60_000) });
    stream.send({ claims: [claimOf()] });
    const { heartbeat } = await stream.until((frame) => (frame.heartbeat?.progress.length ?? 0) > 0);
    expect(heartbeat?.progress).toMatchObject([{ progressJson: '{"done":0.5}' }]);
    expect(await refused.promise).toMatchObject({ message: "progress.done is NaN, which JSON cannot carry" });
  });

  test("the handler sees its call", async () => {
    const seen = gate<ToolContext>();
    bench().start({ echo: (_, ctx) => seen.open(ctx) });
    const { stream } = await bench().peer.welcomeWork();
    const claim = claimOf({
      inputJson: '{"id":9007199254740993}',
      labels: { team: "a" },
      namespace: "u1",
      attempt: 2,
      traceparent: "00-1-2-01",
      timeLeft: durationFromMs(5000),
    });
    stream.send({ claims: [claim] });
    const ctx = await seen.promise;
    expect(ctx).toMatchObject({
      tool: "echo",
      namespace: "u1",
      runId: claim.callId.split("/")[0],
      seq: Number(claim.callId.split("/")[1]),
      idempotencyKey: claim.callId,
      attempt: 2,
      labels: { team: "a" },
      traceparent: "00-1-2-01",
      inputJson: '{"id":9007199254740993}',
    });
    expect(Math.abs((ctx.deadline?.getTime() ?? 0) - Date.now() - 5000)).toBeLessThan(1000);
    expect(ctx.signal.aborted).toBe(false);
  });
});

// By polls the two go over connections of their own: which of them arrives first says nothing.
describe("a worker by stream", () => {
  const bench = benches();

  test("a handler that blocks the event loop has been accepted before", async () => {
    const release = new Int32Array(new SharedArrayBuffer(4));
    bench().start({ echo: () => Atomics.wait(release, 0, 0, 300) });
    const { stream } = await bench().peer.welcomeWork();
    // The peer lives in this process, so what counts is the order of the frames.
    stream.send({ claims: [claimOf()] });
    expect(await stream.next()).toMatchObject({ answers: [], accepted: [expect.any(String)] });
  });
});

/** Of a newer server. */
const UNKNOWN_REASON = JSON.parse("99") as RevokeReason;

describe.each(CARRIAGES)("when the server revokes a claim by %s,", (carriage) => {
  const bench = benches(carriage);

  test.each([
    [RevokeReason.CANCELED, 0],
    [RevokeReason.SETTLED, 0],
    [RevokeReason.TIMEOUT, 1],
    [RevokeReason.LEASE_LOST, 1],
    [UNKNOWN_REASON, 1],
  ])(
    "for reason %d its signal aborts, no answer follows, and onError hears of it %d times, or once where no reason is told",
    async (reason, times) => {
      const aborted = gate<unknown>();
      bench().start({
        echo: (_, ctx) =>
          new Promise((_resolve, reject) => {
            ctx.signal.addEventListener("abort", () => {
              aborted.open(ctx.signal.reason);
              reject(ctx.signal.reason as Error);
            });
          }),
      });
      const { stream } = await bench().peer.welcomeWork();
      const claim = claimOf();
      stream.send({ claims: [claim] });
      await acceptedOn(stream);
      stream.send({ revoked: [create(RevocationSchema, { claimId: claim.claimId, reason })] });
      expect(await aborted.promise).toMatchObject({ reason: "CLAIM_LOST" });
      expect(await freedOn(stream)).toBe(1);
      expect(bench().errors).toHaveLength(carriage === "poll" ? 1 : times);
    },
  );

  test("a claim that has not started yet frees its slot and never starts", async () => {
    let starts = 0;
    bench().start({ echo: () => ++starts });
    const { stream } = await bench().peer.welcomeWork();
    const claim = claimOf({ confirm: true });
    stream.send({ claims: [claim] });
    await acceptedOn(stream);
    stream.send({
      revoked: [create(RevocationSchema, { claimId: claim.claimId, reason: RevokeReason.CANCELED })],
    });
    expect(await freedOn(stream)).toBe(1);
    stream.send({ confirmed: [claim.claimId] });
    await stream.until(({ heartbeat }) => heartbeat !== undefined);
    expect(starts).toBe(0);
  });
});

describe("a worker's options", () => {
  const client = new Trunkline({ url: "http://127.0.0.1:1" });
  const cases: [WorkerOptions, RegExp][] = [
    [{ tools: {} }, /^tools: it is empty/],
    [{ tools: { "a b": () => 1 } }, /^tools: "a b"; allowed are names of 1 to 128/],
    [{ tools: { a: 1 as never } }, /^tools\.a: number; allowed is a function/],
    [{ tools: { a: () => 1 }, concurrency: 0 }, /^concurrency: 0; allowed are whole numbers from 1 to 10000/],
    [{ tools: { a: () => 1 }, pollWait: "2m" }, /^pollWait: 2m; allowed are at most 60 s/],
  ];
  test.each(cases)("%o is refused", (options, message) => {
    expect(() => client.worker(options)).toThrow(message);
  });
});
