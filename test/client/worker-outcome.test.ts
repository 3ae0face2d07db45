import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { FailureKind } from "@trunkline/proto/model";
import { Reason } from "@trunkline/proto/problem";
import { AckSchema, ClaimVerdict_Standing as Standing } from "@trunkline/proto/worker";
import { describe, expect, test, vi } from "vitest";
import { HostToolError, TrunklineError } from "../../client/src/index.js";
import { ackOf, answerOn, benches, doneOn, freedOn, verdicts } from "./support/bench.js";
import { claimOf, gate } from "./support/claim.js";
import { CARRIAGES } from "./support/peer.js";

describe.each(CARRIAGES)(
  "whatever a handler does ends its call and frees its slot by %s (S18)",
  (carriage) => {
    const bench = benches(carriage);
    const trap = (): never => {
      throw new Error("trap");
    };
    const hostile = new Proxy({}, { get: trap, ownKeys: trap, getPrototypeOf: trap });
    const throwing = (thrown: unknown) => (): never => {
      throw thrown;
    };
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
      ["throws an Error", throwing(new RangeError("far")), FailureKind.EXCEPTION, "RangeError: far"],
      ["throws a string", throwing("boom"), FailureKind.EXCEPTION, "boom"],
      ["throws undefined", throwing(undefined), FailureKind.EXCEPTION, "undefined was thrown"],
      ["throws a frozen object", throwing(Object.freeze({})), FailureKind.EXCEPTION, "an object was thrown"],
      ["throws a hostile object", throwing(hostile), FailureKind.EXCEPTION, "thrown"],
      ["throws too long", throwing(new Error("€".repeat(9000))), FailureKind.EXCEPTION, "Error: €€"],
    ];

    test.each(endings)("%s", async (_, handler, kind, message) => {
      bench().start({ echo: handler });
      const { stream } = await bench().peer.welcomeWork();
      stream.send({ claims: [claimOf()] });
      expect(await doneOn(stream)).toMatchObject({
        answer: { outcome: { case: "failure", value: { kind, message: expect.stringContaining(message) } } },
        grant: 1,
      });
      expect(bench().errors).toHaveLength(1);
    });

    test("a HostToolError is the tool's word and no news to onError", async () => {
      bench().start({
        echo: () => {
          throw new HostToolError("sold out", { data: { left: 0 }, retryable: true });
        },
      });
      const { stream } = await bench().peer.welcomeWork();
      stream.send({ claims: [claimOf()] });
      expect((await answerOn(stream)).outcome).toMatchObject({
        case: "failure",
        value: { kind: FailureKind.TOOL, message: "sold out", dataJson: '{"left":0}', retryable: true },
      });
      expect(bench().errors).toEqual([]);
    });

    test("an onError that rejects does no harm", async () => {
      const told = vi.spyOn(console, "error").mockImplementation(() => undefined);
      const worker = bench().start(
        {
          echo: () => {
            throw new TypeError("boom");
          },
        },
        // eslint-disable-next-line @typescript-eslint/no-misused-promises -- that is what is tested
        { onError: () => Promise.reject(new Error("async")) },
      );
      const { stream } = await bench().peer.welcomeWork();
      stream.send({ claims: [claimOf()] });
      expect((await answerOn(stream)).outcome.case).toBe("failure");
      await expect.poll(() => told.mock.calls).toContainEqual(["onError threw", new Error("async")]);
      told.mockRestore();
      expect(worker.status).toBe("connected");
    });

    test("an onError that throws does no harm", async () => {
      bench().start(
        { echo: () => undefined },
        {
          onError: () => {
            throw new Error("again");
          },
        },
      );
      const { stream } = await bench().peer.welcomeWork();
      stream.send({ claims: [claimOf()] });
      await answerOn(stream);
    });
  },
);

describe.each(CARRIAGES)("a deferral by %s", (carriage) => {
  const bench = benches(carriage);

  test("is sent with the token's secret, again until its ack, and then resolves (B03)", async () => {
    const deferred = gate<unknown>();
    const tokens: string[] = [];
    bench().start({
      echo: async (_, ctx) => {
        tokens.push(ctx.newToken());
        deferred.open(await ctx.defer({ token: tokens[0]!, timeout: "1h" }));
        return undefined;
      },
    });
    const { stream } = await bench().peer.welcomeWork();
    const claim = claimOf({ attempt: 3 });
    stream.send({ claims: [claim] });
    const frame = await stream.until(({ deferrals }) => deferrals.length > 0);
    const [prefix, secret] = [`${claim.callId}.3.`, tokens[0]!.split(".").at(-1)!];
    expect(tokens[0]).toBe(prefix + secret);
    expect(secret).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(frame.deferrals[0]).toMatchObject({ secret, timeout: durationFromMs(3_600_000) });
    // The ack is lost.
    bench().peer.cut();
    const again = await bench().peer.welcomeWork(verdicts(claim.claimId, Standing.DEFERRED));
    const repeated = await again.stream.until(({ deferrals }) => deferrals.length > 0);
    expect(repeated.deferrals).toEqual(frame.deferrals);
    const expiresAt = new Date(2_000_000_000_000);
    again.stream.send({
      acks: [
        create(AckSchema, { claimId: claim.claimId, deferred: { expiresAt: timestampFromDate(expiresAt) } }),
      ],
    });
    expect(await deferred.promise).toEqual({ token: tokens[0], expiresAt, cutToRun: false });
    expect(await freedOn(again.stream)).toBe(1);
    expect(bench().errors).toEqual([]);
  });

  test("asked for twice it is the same, and another token is refused", async () => {
    const seen = gate<unknown[]>();
    bench().start({
      echo: async (_, ctx) => {
        const [first, second] = await Promise.all([ctx.defer(), ctx.defer()]);
        const other = await ctx.defer({ token: ctx.newToken() }).catch((error: unknown) => error);
        const foreign = await ctx.defer({ token: "made-up" }).catch((error: unknown) => error);
        const numeric = await ctx.defer({ timeout: 5 as never }).catch((error: unknown) => error);
        seen.open([first, second, other, foreign, numeric]);
        return undefined;
      },
    });
    const { stream } = await bench().peer.welcomeWork();
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
    bench().start({
      echo: async (_input, ctx) => {
        await ctx.defer();
        return ending();
      },
    });
    const { stream } = await bench().peer.welcomeWork();
    const claim = claimOf();
    const error = bench().nextError();
    stream.send({ claims: [claim] });
    await stream.until(({ deferrals }) => deferrals.length > 0);
    stream.send({ acks: [ackOf(claim.claimId)] });
    expect(await error).toMatchObject(reported);
    expect(await freedOn(stream)).toBe(1);
    expect(bench().errors).toHaveLength(1);
  });

  test("refused when nobody waits for it, it fails the call instead of leaving it open for ever", async () => {
    bench().start({ echo: (_, ctx) => void ctx.defer({ timeout: "10m" }) });
    const { stream } = await bench().peer.welcomeWork();
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
    bench().start({
      echo: async (_, ctx) => {
        const error = await ctx.defer().catch((refusal: unknown) => refusal);
        seen.open([error, ctx.signal.aborted]);
        return "dropped";
      },
    });
    const { stream } = await bench().peer.welcomeWork();
    const claim = claimOf();
    stream.send({ claims: [claim] });
    await stream.until(({ deferrals }) => deferrals.length > 0);
    stream.send({ acks: [ackOf(claim.claimId, Reason.CLAIM_LOST)] });
    expect(await seen.promise).toEqual([expect.any(TrunklineError), true]);
    expect(await freedOn(stream)).toBe(1);
  });
});
