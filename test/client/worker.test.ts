import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { FailureKind } from "@trunkline/proto/model";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";
import {
  AckSchema,
  ClaimVerdict_Standing as Standing,
  HeartbeatAckSchema,
  RevocationSchema,
  RevokeReason,
  type Answer,
} from "@trunkline/proto/worker";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  HostToolError,
  Trunkline,
  TrunklineError,
  type ToolContext,
  type Worker,
  type WorkerOptions,
} from "../../client/src/index.js";
import { claimOf, gate } from "./support/claim.js";
import { INTERVAL_MS, Peer, type WorkPeer } from "./support/peer.js";

let peer: Peer;
let worker: Worker | undefined;
let errors: unknown[];
let nextError: () => Promise<unknown>;

beforeEach(async () => {
  peer = await Peer.start();
  errors = [];
});

afterEach(async () => {
  // Nobody answers a worker that a test has left holding something.
  await worker?.stop({ timeout: "1ms" }).catch(() => undefined);
  worker = undefined;
  await peer.stop();
});

const start = (tools: WorkerOptions["tools"], options: Omit<WorkerOptions, "tools"> = {}): Worker => {
  const waiting: ((error: unknown) => void)[] = [];
  nextError = () =>
    new Promise((resolve) => {
      waiting.push(resolve);
    });
  const client = new Trunkline({ url: peer.url, key: "k1", onWarning: () => undefined });
  worker = client.worker({
    tools,
    onError: (error) => {
      errors.push(error);
      waiting.shift()?.(error);
    },
    ...options,
  });
  return worker;
};

const ackOf = (claimId: string, reason?: Reason) =>
  create(AckSchema, {
    claimId,
    ...(reason !== undefined && { problem: create(ProblemSchema, { reason, message: "refused" }) }),
  });

/** The next answer; heartbeats before it are passed over. */
const answerOn = async (stream: WorkPeer): Promise<Answer> => {
  const frame = await stream.until(({ answers }) => answers.length > 0);
  expect(frame.answers).toHaveLength(1);
  return frame.answers[0]!;
};

const verdicts = (claimId: string, standing: Standing) => ({ verdicts: [{ claimId, standing }] });

describe("a worker", () => {
  test("says who it is, what it runs and how many slots are free, with its key in the header", async () => {
    start({ echo: () => 1, "crm.find": () => 2 }, { concurrency: 3, name: "w1", toolset: "shop" });
    const { stream, hello } = await peer.welcomeWork();
    expect(stream.header.get("authorization")).toBe("Bearer k1");
    expect(hello).toMatchObject({ worker: "w1", toolset: "shop", slots: 3, claims: [] });
    expect(hello.tools).toEqual(["echo", "crm.find"]);
    expect(hello.nonce.length).toBeGreaterThanOrEqual(16);
  });

  test("accepts a claim before its handler starts, answers, and grants the slot back", async () => {
    const started = gate<unknown>();
    const finish = gate<string>();
    start({
      echo: async (input) => {
        started.open(input);
        return { said: await finish.promise };
      },
    });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf({ inputJson: '{"a":1}' });
    stream.send({ claims: [claim] });
    expect((await stream.next()).accepted).toEqual([claim.claimId]);
    expect(await started.promise).toEqual({ a: 1 });
    finish.open("hi");
    const frame = await stream.until(({ answers }) => answers.length > 0);
    expect(frame.answers[0]).toMatchObject({
      claimId: claim.claimId,
      callId: claim.callId,
      outcome: { case: "resultJson", value: '{"said":"hi"}' },
    });
    expect(frame.grant).toBe(1);
  });

  test("a handler that blocks the event loop has been accepted before", async () => {
    const release = new Int32Array(new SharedArrayBuffer(4));
    start({ echo: () => Atomics.wait(release, 0, 0, 300) });
    const { stream } = await peer.welcomeWork();
    // The peer lives in this process, so what counts is the order of the frames.
    stream.send({ claims: [claimOf()] });
    expect(await stream.next()).toMatchObject({ answers: [], accepted: [expect.any(String)] });
  });

  test("a claim marked confirm starts one handler, after the first of two confirmations (I3)", async () => {
    let starts = 0;
    start({ echo: () => ++starts });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf({ confirm: true });
    stream.send({ claims: [claim] });
    expect((await stream.next()).accepted).toEqual([claim.claimId]);
    await stream.until(({ heartbeat }) => heartbeat?.claims.includes(claim.claimId) === true);
    expect(starts).toBe(0);
    stream.send({ confirmed: [claim.claimId] });
    stream.send({ confirmed: [claim.claimId] });
    await answerOn(stream);
    stream.send({ confirmed: [claim.claimId] });
    stream.send({ acks: [ackOf(claim.claimId)] });
    await stream.until(({ heartbeat }) => heartbeat?.claims.length === 0);
    expect(starts).toBe(1);
  });

  test("every heartbeat names all claims held, also those whose answer is not acknowledged", async () => {
    const never = gate();
    start({ echo: () => "done", wait: () => never.promise });
    const { stream } = await peer.welcomeWork();
    const [quick, slow] = [claimOf(), claimOf({ tool: "wait" })];
    stream.send({ claims: [quick, slow] });
    await answerOn(stream);
    const { heartbeat } = await stream.until((frame) => frame.heartbeat !== undefined);
    expect(heartbeat?.claims).toEqual([quick.claimId, slow.claimId]);
    stream.send({ acks: [ackOf(quick.claimId)] });
    const after = await stream.until((frame) => frame.heartbeat?.claims.length === 1);
    expect(after.heartbeat?.claims).toEqual([slow.claimId]);
  });

  test("progress goes with a heartbeat at once, and what is no JSON is refused to the handler", async () => {
    const never = gate();
    const refused = gate<unknown>();
    start({
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
    const { stream } = await peer.welcomeWork({ heartbeatInterval: durationFromMs(60_000) });
    stream.send({ claims: [claimOf()] });
    const { heartbeat } = await stream.until((frame) => frame.heartbeat !== undefined);
    expect(heartbeat?.progress).toMatchObject([{ progressJson: '{"done":0.5}' }]);
    expect(await refused.promise).toMatchObject({ message: "progress.done is NaN, which JSON cannot carry" });
  });

  test("the handler sees its call", async () => {
    const seen = gate<ToolContext>();
    start({ echo: (_, ctx) => seen.open(ctx) });
    const { stream } = await peer.welcomeWork();
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

describe("whatever a handler does ends its call and frees its slot (S18)", () => {
  const hostile = new Proxy(
    {},
    {
      get: () => {
        throw new Error("trap");
      },
    },
  );
  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;
  const endings: [string, () => unknown, FailureKind, string][] = [
    ["returns undefined", () => undefined, FailureKind.INVALID_ANSWER, "result is undefined"],
    ["returns a BigInt", () => ({ id: 1n }), FailureKind.INVALID_ANSWER, "result.id is a BigInt"],
    ["returns a cycle", () => cyclic, FailureKind.INVALID_ANSWER, "result.self is a cycle"],
    ["returns half an emoji", () => "\ud83d", FailureKind.INVALID_ANSWER, "half of a surrogate pair"],
    ["returns too much", () => "x".repeat(2 ** 20), FailureKind.OVERSIZED, "result has 1048578 bytes"],
    [
      "returns too deep",
      () => JSON.parse("[".repeat(1000) + "]".repeat(1000)),
      FailureKind.INVALID_ANSWER,
      "256",
    ],
    [
      "returns a hostile object",
      () => ({ hostile }),
      FailureKind.INVALID_ANSWER,
      "cannot be read: Error: trap",
    ],
    [
      "throws an Error",
      () => {
        throw new RangeError("far");
      },
      FailureKind.EXCEPTION,
      "RangeError: far",
    ],
    [
      "throws a string",
      () => {
        throw "boom";
      },
      FailureKind.EXCEPTION,
      "boom",
    ],
    [
      "throws undefined",
      () => {
        throw undefined;
      },
      FailureKind.EXCEPTION,
      "undefined was thrown",
    ],
    [
      "throws a frozen object",
      () => {
        throw Object.freeze({});
      },
      FailureKind.EXCEPTION,
      "an object was thrown",
    ],
    [
      "throws a hostile object",
      () => {
        throw hostile;
      },
      FailureKind.EXCEPTION,
      "thrown",
    ],
    [
      "throws too long",
      () => {
        throw new Error("€".repeat(9000));
      },
      FailureKind.EXCEPTION,
      "Error: €€",
    ],
  ];

  test.each(endings)("%s", async (_, handler, kind, message) => {
    start({ echo: handler });
    const { stream } = await peer.welcomeWork();
    stream.send({ claims: [claimOf()] });
    const frame = await stream.until(({ answers }) => answers.length > 0);
    expect(frame.grant).toBe(1);
    const { outcome } = frame.answers[0]!;
    expect(outcome).toMatchObject({
      case: "failure",
      value: { kind, message: expect.stringContaining(message) },
    });
    expect(errors).toHaveLength(1);
  });

  test("a HostToolError is the tool's word and no news to onError", async () => {
    start({
      echo: () => {
        throw new HostToolError("sold out", { data: { left: 0 }, retryable: true });
      },
    });
    const { stream } = await peer.welcomeWork();
    stream.send({ claims: [claimOf()] });
    expect((await answerOn(stream)).outcome).toMatchObject({
      case: "failure",
      value: { kind: FailureKind.TOOL, message: "sold out", dataJson: '{"left":0}', retryable: true },
    });
    expect(errors).toEqual([]);
  });

  test("an onError that throws does no harm", async () => {
    start(
      { echo: () => undefined },
      {
        onError: () => {
          throw new Error("again");
        },
      },
    );
    const { stream } = await peer.welcomeWork();
    stream.send({ claims: [claimOf()] });
    await answerOn(stream);
  });
});

describe("when the connection is cut", () => {
  test("the next hello names what is held and the slots free now; the answer is sent again until its ack (B15)", async () => {
    const never = gate();
    start({ echo: () => 42, wait: () => never.promise }, { concurrency: 5 });
    const first = await peer.welcomeWork();
    const [quick, slow] = [claimOf(), claimOf({ tool: "wait" })];
    first.stream.send({ claims: [quick, slow] });
    const sent = await answerOn(first.stream);
    peer.cut();
    const second = await peer.welcomeWork({
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
    await second.stream.until(({ heartbeat }) => heartbeat?.claims.length === 1);
    expect(errors).toEqual([]);
  });

  test("an answer that was made while the server was away is delivered when it is back", async () => {
    const finish = gate();
    start({ echo: () => finish.promise.then(() => "late") });
    const { stream } = await peer.welcomeWork();
    stream.send({ claims: [claimOf()] });
    await stream.next();
    await peer.stop();
    finish.open();
    await peer.listen();
    const again = await peer.welcomeWork();
    expect((await answerOn(again.stream)).outcome).toMatchObject({ value: '"late"' });
  });

  test("a standing of CONFIRMED in the welcome starts the handler that waits for it", async () => {
    start({ echo: () => "ran" });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf({ confirm: true });
    stream.send({ claims: [claim] });
    await stream.next();
    peer.cut();
    const again = await peer.welcomeWork(verdicts(claim.claimId, Standing.CONFIRMED));
    expect((await answerOn(again.stream)).outcome).toMatchObject({ value: '"ran"' });
  });

  test("a claim that was lost meanwhile aborts its handler, is said once, and its result is dropped", async () => {
    const aborted = gate<unknown>();
    const finish = gate();
    start({
      echo: async (_, ctx) => {
        ctx.signal.addEventListener("abort", () => aborted.open(ctx.signal.reason));
        await finish.promise;
        return "late";
      },
    });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf();
    stream.send({ claims: [claim] });
    await stream.next();
    peer.cut();
    const again = await peer.welcomeWork(verdicts(claim.claimId, Standing.LOST));
    expect(again.hello.slots).toBe(9);
    expect(await aborted.promise).toMatchObject({ reason: "CLAIM_LOST" });
    finish.open();
    // The slot is free again, and no answer goes with it.
    const freed = await again.stream.until(({ grant, answers }) => grant > 0 || answers.length > 0);
    expect(freed.answers).toEqual([]);
    expect(errors).toMatchObject([{ reason: "CLAIM_LOST" }]);
  });

  test("an answer refused with CLAIM_LOST is reported once and not sent again (B01)", async () => {
    start({ echo: () => 1 });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf();
    const reported = nextError();
    stream.send({ claims: [claim] });
    await answerOn(stream);
    stream.send({ heartbeatAck: create(HeartbeatAckSchema, { lost: [claim.claimId] }) });
    stream.send({ acks: [ackOf(claim.claimId, Reason.CLAIM_LOST)] });
    expect(await reported).toMatchObject({ reason: "CLAIM_LOST" });
    expect(errors).toHaveLength(1);
    peer.cut();
    expect((await peer.welcomeWork()).hello.claims).toEqual([]);
  });

  test.each([Code.Unavailable, Code.Internal, Code.Unknown, Code.ResourceExhausted, Code.InvalidArgument])(
    "code %d is a cut like any other (S17)",
    async (code) => {
      start({ echo: () => 1 });
      const { stream } = await peer.welcomeWork();
      stream.fail(new ConnectError("away", code));
      await peer.welcomeWork();
    },
  );

  test.each([
    [Code.Unauthenticated, "UNAUTHENTICATED"],
    [Code.PermissionDenied, "PERMISSION_DENIED"],
  ])("code %d stops the worker: its done rejects with %s", async (code, reason) => {
    peer.refusal = new ConnectError("no", code);
    const stopped = start({ echo: () => 1 });
    await expect(stopped.done).rejects.toMatchObject({ reason });
    expect(errors).toMatchObject([{ reason }]);
    expect(peer.connections).toBe(1);
  });

  test("an answer whose frame was refused for its size becomes an oversized failure (B23)", async () => {
    start({ echo: () => "x".repeat(600_000) });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf();
    stream.send({ claims: [claim] });
    await answerOn(stream);
    const detail = create(ProblemSchema, { code: 8, reason: Reason.FRAME_TOO_LARGE, message: "frame" });
    stream.fail(
      new ConnectError("frame", Code.ResourceExhausted, undefined, [{ desc: ProblemSchema, value: detail }]),
    );
    const again = await peer.welcomeWork();
    expect((await answerOn(again.stream)).outcome).toMatchObject({
      case: "failure",
      value: { kind: FailureKind.OVERSIZED },
    });
  });

  test("a server that falls silent is dropped after three intervals (B22)", async () => {
    start({ echo: () => 1 });
    const { stream } = await peer.welcomeWork();
    const since = performance.now();
    await stream.over;
    const silentMs = performance.now() - since;
    expect(silentMs).toBeGreaterThan(2.5 * INTERVAL_MS);
    expect(silentMs).toBeLessThan(10 * INTERVAL_MS);
    await peer.welcomeWork();
  });

  test("a server that is heard in every interval is not dropped", async () => {
    start({ echo: () => 1 });
    const { stream } = await peer.welcomeWork();
    for (let beats = 0; beats < 6; beats++) {
      await stream.until(({ heartbeat }) => heartbeat !== undefined);
      stream.send({ heartbeatAck: create(HeartbeatAckSchema) });
    }
    expect(peer.connections).toBe(1);
  });

  test("a worker whose own process stood still reads what has arrived before it calls the line dead", async () => {
    start({ echo: () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10 * INTERVAL_MS) });
    const { stream } = await peer.welcomeWork();
    stream.send({ claims: [claimOf()] });
    await answerOn(stream);
    stream.send({ heartbeatAck: create(HeartbeatAckSchema) });
    await stream.until(({ heartbeat }) => heartbeat !== undefined);
    expect(peer.connections).toBe(1);
  });
});

describe("on a goaway", () => {
  test("the next stream is opened on a new connection while the old one is read to its end", async () => {
    const finish = gate();
    start({ echo: () => finish.promise.then(() => "done") }, { concurrency: 2 });
    const old = await peer.welcomeWork();
    const claim = claimOf();
    old.stream.send({ claims: [claim] });
    await old.stream.next();
    old.stream.send({ goaway: { $typeName: "trunkline.v1.Goaway", message: "bye" } });
    const stream = await peer.work();
    const { hello } = await stream.next();
    expect(peer.connections).toBe(2);
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
    expect(peer.connections).toBe(2);
  });
});

describe("when the server revokes a claim", () => {
  test.each([
    [RevokeReason.CANCELED, 0],
    [RevokeReason.SETTLED, 0],
    [RevokeReason.TIMEOUT, 1],
    [RevokeReason.LEASE_LOST, 1],
    [99 as RevokeReason, 1],
  ])(
    "for reason %d its signal aborts, no answer follows, and onError hears of it %d times",
    async (reason, times) => {
      const aborted = gate<unknown>();
      start({
        echo: (_, ctx) =>
          new Promise((_resolve, reject) => {
            ctx.signal.addEventListener("abort", () => {
              aborted.open(ctx.signal.reason);
              reject(ctx.signal.reason as Error);
            });
          }),
      });
      const { stream } = await peer.welcomeWork();
      const claim = claimOf();
      stream.send({ claims: [claim] });
      await stream.next();
      stream.send({ revoked: [create(RevocationSchema, { claimId: claim.claimId, reason })] });
      expect(await aborted.promise).toMatchObject({ reason: "CLAIM_LOST" });
      const freed = await stream.until(({ grant, answers }) => grant > 0 || answers.length > 0);
      expect(freed.answers).toEqual([]);
      expect(errors).toHaveLength(times);
    },
  );

  test("a claim that has not started yet frees its slot and never starts", async () => {
    let starts = 0;
    start({ echo: () => ++starts });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf({ confirm: true });
    stream.send({ claims: [claim] });
    await stream.next();
    stream.send({
      revoked: [create(RevocationSchema, { claimId: claim.claimId, reason: RevokeReason.CANCELED })],
    });
    expect((await stream.until(({ grant }) => grant > 0)).grant).toBe(1);
    stream.send({ confirmed: [claim.claimId] });
    await stream.until(({ heartbeat }) => heartbeat !== undefined);
    expect(starts).toBe(0);
  });
});

describe("a deferral", () => {
  test("is sent with the token's secret, again until its ack, and then resolves (B03)", async () => {
    const deferred = gate<unknown>();
    const tokens: string[] = [];
    start({
      echo: async (_, ctx) => {
        tokens.push(ctx.newToken());
        deferred.open(await ctx.defer({ token: tokens[0]!, timeout: "1h" }));
        return undefined;
      },
    });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf({ attempt: 3 });
    stream.send({ claims: [claim] });
    const frame = await stream.until(({ deferrals }) => deferrals.length > 0);
    const [prefix, secret] = [`${claim.callId}.3.`, tokens[0]!.split(".").at(-1)!];
    expect(tokens[0]).toBe(prefix + secret);
    expect(secret).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(frame.deferrals[0]).toMatchObject({ secret, timeout: durationFromMs(3_600_000) });
    // The ack is lost.
    peer.cut();
    const again = await peer.welcomeWork(verdicts(claim.claimId, Standing.DEFERRED));
    const repeated = await again.stream.until(({ deferrals }) => deferrals.length > 0);
    expect(repeated.deferrals).toEqual(frame.deferrals);
    const expiresAt = new Date(2_000_000_000_000);
    again.stream.send({
      acks: [
        create(AckSchema, { claimId: claim.claimId, deferred: { expiresAt: timestampFromDate(expiresAt) } }),
      ],
    });
    expect(await deferred.promise).toEqual({ token: tokens[0], expiresAt, cutToRun: false });
    const freed = await again.stream.until(({ grant, answers }) => grant > 0 || answers.length > 0);
    expect(freed.answers).toEqual([]);
    expect(errors).toEqual([]);
  });

  test("asked for twice it is the same, and another token is refused", async () => {
    const seen = gate<unknown[]>();
    start({
      echo: async (_, ctx) => {
        const [first, second] = await Promise.all([ctx.defer(), ctx.defer()]);
        const other = await ctx.defer({ token: ctx.newToken() }).catch((error: unknown) => error);
        const foreign = await ctx.defer({ token: "made-up" }).catch((error: unknown) => error);
        const numeric = await ctx.defer({ timeout: 5 as never }).catch((error: unknown) => error);
        seen.open([first, second, other, foreign, numeric]);
        return undefined;
      },
    });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf();
    stream.send({ claims: [claim] });
    const frame = await stream.until(({ deferrals }) => deferrals.length > 0);
    expect(frame.deferrals).toHaveLength(1);
    stream.send({ acks: [ackOf(claim.claimId)] });
    const [first, second, other, foreign, numeric] = await seen.promise;
    expect(second).toBe(first);
    expect(other).toMatchObject({ reason: "CALL_DEFERRED" });
    expect(foreign).toMatchObject({ reason: "TOKEN_INVALID" });
    expect(numeric).toMatchObject({ reason: "INVALID_FIELD" });
  });

  test.each([
    ["returned", (): unknown => "too late", { reason: "CALL_DEFERRED" }],
    [
      "thrown",
      (): unknown => {
        throw new Error("after all");
      },
      { message: "after all" },
    ],
  ])("what is %s after it changes nothing and goes to onError (B10)", async (_, ending, reported) => {
    start({
      echo: async (_input, ctx) => {
        await ctx.defer();
        return ending();
      },
    });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf();
    const error = nextError();
    stream.send({ claims: [claim] });
    await stream.until(({ deferrals }) => deferrals.length > 0);
    stream.send({ acks: [ackOf(claim.claimId)] });
    expect(await error).toMatchObject(reported);
    const freed = await stream.until(({ grant, answers }) => grant > 0 || answers.length > 0);
    expect(freed.answers).toEqual([]);
    expect(errors).toHaveLength(1);
  });

  test("refused when nobody waits for it, it fails the call instead of leaving it open for ever", async () => {
    start({ echo: (_, ctx) => void ctx.defer({ timeout: "10m" }) });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf();
    stream.send({ claims: [claim] });
    await stream.until(({ deferrals }) => deferrals.length > 0);
    stream.send({ acks: [ackOf(claim.claimId, Reason.INVALID_FIELD)] });
    expect((await answerOn(stream)).outcome).toMatchObject({
      case: "failure",
      value: { kind: FailureKind.EXCEPTION, message: expect.stringContaining("the deferral was refused") },
    });
  });

  test("refused under a lost claim, it rejects, aborts the signal, and no answer follows", async () => {
    const seen = gate<[unknown, boolean]>();
    start({
      echo: async (_, ctx) => {
        const error = await ctx.defer().catch((refusal: unknown) => refusal);
        seen.open([error, ctx.signal.aborted]);
        return "dropped";
      },
    });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf();
    stream.send({ claims: [claim] });
    await stream.until(({ deferrals }) => deferrals.length > 0);
    stream.send({ acks: [ackOf(claim.claimId, Reason.CLAIM_LOST)] });
    expect(await seen.promise).toEqual([expect.any(TrunklineError), true]);
    const freed = await stream.until(({ grant, answers }) => grant > 0 || answers.length > 0);
    expect(freed.answers).toEqual([]);
  });
});

describe("stop", () => {
  test("hands back what has not started, finishes what has, beats to the end, and closes after drained (B13)", async () => {
    const finish = gate();
    let starts = 0;
    const stopping = start({
      echo: () => {
        starts++;
        return finish.promise.then(() => "done");
      },
    });
    const { stream } = await peer.welcomeWork();
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
    stream.send({ acks: [ackOf(running.claimId)], drained: { $typeName: "trunkline.v1.Drained" } });
    await stream.halfClosed();
    stream.end();
    await stopped;
    expect(starts).toBe(1);
    expect(errors).toEqual([]);
  });

  test("a claim of which the stop came before its first turn is handed back, not run", async () => {
    let starts = 0;
    const signal = new AbortController();
    start({ echo: () => ++starts, bye: () => signal.abort() }, { signal: signal.signal });
    const { stream } = await peer.welcomeWork();
    const [bye, never] = [claimOf({ tool: "bye" }), claimOf()];
    stream.send({ claims: [bye, never] });
    const { releases } = await stream.until((frame) => frame.releases.length > 0);
    expect(releases).toEqual([never.claimId]);
    expect(starts).toBe(0);
  });

  test("with nothing to do and no server it resolves at once", async () => {
    await peer.stop();
    await start({ echo: () => 1 }).stop();
  });

  test("with an answer that cannot be delivered it gives up after its bound and says which", async () => {
    const stopping = start({ echo: () => 1 });
    const { stream } = await peer.welcomeWork();
    const claim = claimOf();
    stream.send({ claims: [claim] });
    await answerOn(stream);
    await peer.stop();
    const since = performance.now();
    await stopping.stop();
    expect(performance.now() - since).toBeLessThan(15_000);
    expect(errors).toMatchObject([{ message: expect.stringContaining(claim.callId) }]);
  });

  test("with a timeout it does not wait for handlers that never end", async () => {
    const aborted = gate<unknown>();
    const stopping = start({
      echo: (_, ctx) => {
        ctx.signal.addEventListener("abort", () => aborted.open(ctx.signal.reason));
        return new Promise(() => undefined);
      },
    });
    const { stream } = await peer.welcomeWork();
    stream.send({ claims: [claimOf()] });
    await stream.next();
    await stopping.stop({ timeout: "50ms" });
    expect(await aborted.promise).toMatchObject({ reason: "TIMEOUT" });
  });
});

describe("a worker's options", () => {
  const client = new Trunkline({ url: "http://127.0.0.1:1" });
  test.each([
    [{ tools: {} }, /^tools: it is empty/],
    [{ tools: { a: 1 as never } }, /^tools\.a: number; allowed is a function/],
    [{ tools: { a: () => 1 }, concurrency: 0 }, /^concurrency: 0; allowed are whole numbers from 1 to 10000/],
    [{ tools: { a: () => 1 }, pollWait: "2m" }, /^pollWait: 2m; allowed are at most 60 s/],
  ])("%o is refused", (options, message) => {
    expect(() => client.worker(options)).toThrow(message);
  });
});
