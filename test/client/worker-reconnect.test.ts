import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { FailureKind } from "@trunkline/proto/model";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";
import { ClaimVerdict_Standing as Standing, HeartbeatAckSchema } from "@trunkline/proto/worker";
import { describe, expect, test } from "vitest";
import { acceptedOn, ackOf, answerOn, benches, freedOn, holdingOn, verdicts } from "./support/bench.js";
import { claimOf, gate } from "./support/claim.js";
import { CARRIAGES, INTERVAL_MS } from "./support/peer.js";

describe.each(CARRIAGES)("when the connection is cut, by %s,", (carriage) => {
  const bench = benches(carriage);

  test("the next hello names what is held and the slots free now; the answer is sent again until its ack (B15)", async () => {
    const never = gate();
    bench().start({ echo: () => 42, wait: () => never.promise }, { concurrency: 5 });
    const first = await bench().peer.welcomeWork();
    const [quick, slow] = [claimOf(), claimOf({ tool: "wait" })];
    first.stream.send({ claims: [quick, slow] });
    const sent = await answerOn(first.stream);
    bench().peer.cut();
    const second = await bench().peer.welcomeWork({
      verdicts: [
        { claimId: quick.claimId, standing: Standing.ANSWERED },
        { claimId: slow.claimId, standing: Standing.KEPT },
      ],
    });
    expect(second.hello.slots).toBe(4);
    expect(second.hello).toMatchObject({ sessionId: first.hello.sessionId, nonce: first.hello.nonce });
    expect(second.hello.claims.map(({ claimId }) => claimId)).toEqual([quick.claimId, slow.claimId]);
    expect(await answerOn(second.stream)).toEqual(sent);
    second.stream.send({ acks: [ackOf(quick.claimId)] });
    await holdingOn(second.stream, slow);
    expect(bench().errors).toEqual([]);
  });

  test("an answer that was made while the server was away is delivered when it is back", async () => {
    const finish = gate();
    bench().start({ echo: () => finish.promise.then(() => "late") });
    const { stream } = await bench().peer.welcomeWork();
    stream.send({ claims: [claimOf()] });
    await acceptedOn(stream);
    await bench().peer.stop();
    finish.open();
    await bench().peer.listen();
    const again = await bench().peer.welcomeWork();
    expect((await answerOn(again.stream)).outcome).toMatchObject({ value: '"late"' });
  });

  test("a standing of CONFIRMED in the welcome starts the handler that waits for it", async () => {
    bench().start({ echo: () => "ran" });
    const { stream } = await bench().peer.welcomeWork();
    const claim = claimOf({ confirm: true });
    stream.send({ claims: [claim] });
    await acceptedOn(stream);
    bench().peer.cut();
    const again = await bench().peer.welcomeWork(verdicts(claim.claimId, Standing.CONFIRMED));
    expect((await answerOn(again.stream)).outcome).toMatchObject({ value: '"ran"' });
  });

  test("a claim that was lost meanwhile aborts its handler, is said once, and its result is dropped", async () => {
    const aborted = gate<unknown>();
    const finish = gate();
    bench().start({
      echo: async (_, ctx) => {
        ctx.signal.addEventListener("abort", () => aborted.open(ctx.signal.reason));
        await finish.promise;
        return "late";
      },
    });
    const { stream } = await bench().peer.welcomeWork();
    const claim = claimOf();
    stream.send({ claims: [claim] });
    await acceptedOn(stream);
    bench().peer.cut();
    const again = await bench().peer.welcomeWork(verdicts(claim.claimId, Standing.LOST));
    expect(again.hello.slots).toBe(9);
    expect(await aborted.promise).toMatchObject({ reason: "CLAIM_LOST" });
    finish.open();
    // The slot is free again, and no answer goes with it.
    expect(await freedOn(again.stream)).toBe(1);
    expect(bench().errors).toMatchObject([{ reason: "CLAIM_LOST" }]);
  });

  test("an answer refused with CLAIM_LOST is reported once and not sent again (B01)", async () => {
    bench().start({ echo: () => 1 });
    const { stream } = await bench().peer.welcomeWork();
    const claim = claimOf();
    const reported = bench().nextError();
    stream.send({ claims: [claim] });
    await answerOn(stream);
    stream.send({ heartbeatAck: create(HeartbeatAckSchema, { lost: [claim.claimId] }) });
    stream.send({ acks: [ackOf(claim.claimId, Reason.CLAIM_LOST)] });
    expect(await reported).toMatchObject({ reason: "CLAIM_LOST" });
    expect(bench().errors).toHaveLength(1);
    bench().peer.cut();
    expect((await bench().peer.welcomeWork()).hello.claims).toEqual([]);
  });

  test.each([Code.Unavailable, Code.Internal, Code.Unknown, Code.ResourceExhausted, Code.InvalidArgument])(
    "code %d is a cut like any other (S17)",
    async (code) => {
      bench().start({ echo: () => 1 });
      const { stream } = await bench().peer.welcomeWork();
      stream.fail(new ConnectError("away", code));
      await bench().peer.welcomeWork();
    },
  );

  test.each([
    [Code.Unauthenticated, "UNAUTHENTICATED"],
    [Code.PermissionDenied, "PERMISSION_DENIED"],
  ])("code %d stops the worker: its done rejects with %s", async (code, reason) => {
    bench().peer.refusal = new ConnectError("no", code);
    const stopped = bench().start({ echo: () => 1 });
    await expect(stopped.done).rejects.toMatchObject({ reason });
    expect(bench().errors).toMatchObject([{ reason }]);
    expect(bench().peer.connections).toBe(1);
  });

  // By polls a request of the carrier that ended may come late, and the peer takes it for the next one's first.
  test.skipIf(carriage === "poll")(
    "an answer whose frame was refused for its size becomes an oversized failure (B23)",
    async () => {
      bench().start({ echo: () => "x".repeat(600_000) });
      const { stream } = await bench().peer.welcomeWork();
      const claim = claimOf();
      stream.send({ claims: [claim] });
      await answerOn(stream);
      const detail = create(ProblemSchema, { code: 8, reason: Reason.FRAME_TOO_LARGE, message: "frame" });
      stream.fail(
        new ConnectError("frame", Code.ResourceExhausted, undefined, [
          { desc: ProblemSchema, value: detail },
        ]),
      );
      const again = await bench().peer.welcomeWork();
      expect((await answerOn(again.stream)).outcome).toMatchObject({
        case: "failure",
        value: { kind: FailureKind.OVERSIZED },
      });
    },
  );

  // By polls at least two seconds: a request that is only slow is not to be sent twice.
  const dropped = carriage === "stream" ? [2.5 * INTERVAL_MS, 10 * INTERVAL_MS] : [1_950, 3_000];

  test("a server that falls silent is dropped after three intervals (B22)", async () => {
    const never = gate();
    bench().start({ echo: () => never.promise });
    const { stream } = await bench().peer.welcomeWork();
    stream.send({ claims: [claimOf()] });
    await acceptedOn(stream);
    stream.fallSilent();
    const since = performance.now();
    await stream.over;
    const silentMs = performance.now() - since;
    expect(silentMs).toBeGreaterThan(dropped[0]!);
    expect(silentMs).toBeLessThan(dropped[1]!);
    await bench().peer.welcomeWork();
  });

  test("a server that is heard in every interval is not dropped", async () => {
    const never = gate();
    bench().start({ echo: () => never.promise });
    const { stream } = await bench().peer.welcomeWork();
    stream.send({ claims: [claimOf()] });
    for (let beats = 0; beats < 6; beats++) {
      await stream.until(({ heartbeat }) => heartbeat !== undefined);
      stream.send({ heartbeatAck: create(HeartbeatAckSchema) });
    }
    expect(bench().peer.workers).toBe(1);
  });
});

describe("by stream", () => {
  const bench = benches();

  // By polls what is given up early is asked again, and costs a request.
  test("a worker whose own process stood still reads what has arrived before it calls the line dead", async () => {
    bench().start({
      echo: () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10 * INTERVAL_MS),
    });
    const { stream } = await bench().peer.welcomeWork();
    stream.send({ claims: [claimOf()] });
    await answerOn(stream);
    stream.send({ heartbeatAck: create(HeartbeatAckSchema) });
    await stream.until(({ heartbeat }) => heartbeat !== undefined);
    expect(bench().peer.connections).toBe(1);
  });

  // By polls each request may go another way.
  test("on a goaway the next stream is opened on a new connection while the old one is read to its end", async () => {
    const finish = gate();
    bench().start({ echo: () => finish.promise.then(() => "done") }, { concurrency: 2 });
    const old = await bench().peer.welcomeWork();
    const claim = claimOf();
    old.stream.send({ claims: [claim] });
    await old.stream.next();
    old.stream.send({ goaway: { $typeName: "trunkline.v1.Goaway", message: "bye" } });
    const stream = await bench().peer.work();
    const { hello } = await stream.next();
    expect(bench().peer.connections).toBe(2);
    expect(hello).toMatchObject({ slots: 1, claims: [{ claimId: claim.claimId }] });
    // Before its welcome the new stream gets grants only; the answer goes to the old one.
    finish.open();
    expect((await stream.next()).grant).toBe(1);
    const onOld = await old.stream.until(({ answers }) => answers.length > 0);
    expect(onOld.grant).toBe(0);
    old.stream.send({ acks: [ackOf(claim.claimId)] });
    old.stream.end();
    stream.send({
      welcome: {
        $typeName: "trunkline.v1.Welcome",
        node: "n",
        maxResultBytes: 0,
        maxFrameBytes: 0,
        verdicts: [],
      },
    });
    const next = claimOf();
    stream.send({ claims: [next] });
    expect((await stream.until(({ accepted }) => accepted.length > 0)).accepted).toEqual([next.claimId]);
    // The end of the older stream was no cut.
    expect(bench().peer.connections).toBe(2);
  });
});
