import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { HostToolError, Trunkline, type ToolContext, type Worker } from "@trunkline/sdk";
import { startTestServer, type TestServer } from "trunkline/testing";
import { serverUrl } from "../support/database.js";
import { until } from "../support/until.js";
import { WorkerProcess } from "../support/worker-process.js";

const DAY_MS = 24 * 60 * 60 * 1_000;

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer({ postgresUrl: serverUrl() });
});

afterEach(() => server.reset());
afterAll(() => server.stop());

/** A worker of one tool, until the end of the block. */
function serving(tool: string, handler: (input: unknown, ctx: ToolContext) => unknown): Worker {
  return server.client.worker({ tools: { [tool]: handler }, onError: () => undefined });
}

/** A handler that runs until its claim is lost, or the test says what it answers. */
function held(): {
  handler: (input: unknown, ctx: ToolContext) => Promise<unknown>;
  answer(with_: unknown): void;
} {
  let answer = (_: unknown): void => undefined;
  return {
    handler: (_, ctx) =>
      new Promise((resolve, reject) => {
        answer = resolve;
        ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason as Error));
      }),
    answer: (with_) => answer(with_),
  };
}

describe("a clock that is advanced", () => {
  test("has a deferral of three days time out in a moment, and not earlier", async () => {
    await using _ = serving("ask", async (__, ctx) => {
      await ctx.defer({ timeout: "3d" });
    });
    const run = await server.client.runs.create();
    const call = await run.open("ask");
    await server.untilCall({ tool: "ask", state: "deferred" });

    await server.clock.advance("2d23h59m");
    expect((await call.status()).state).toBe("deferred");
    const before = server.clock.now().getTime();
    const startedAt = performance.now();
    await server.clock.advance("1m");
    const tookMs = performance.now() - startedAt;
    const { state, error } = await call.status();
    expect([state, error?.kind]).toEqual(["failed", "defer_timeout"]);
    expect((await call.outcome()).endedAt?.getTime()).toBeGreaterThanOrEqual(before);
    expect(server.clock.now().getTime() - Date.now()).toBeGreaterThanOrEqual(3 * DAY_MS - 1_000);
    console.log(`three days passed in ${Math.round(tookMs)} ms`);
  });

  test("brings one attempt of a call whose backoff ends, however much time passes", async () => {
    await using _ = serving("flaky", (__, { attempt }) => {
      if (attempt < 4) throw new HostToolError(`not the ${attempt}th time`, { retryable: true });
      return attempt;
    });
    const run = await server.client.runs.create();
    const policy = { maxAttempts: 4, backoff: { initial: "1h", factor: 2, max: "4h" } };
    const call = await run.open("flaky", {}, { policy });
    for (const attempt of [1, 2, 3]) {
      await server.untilCall({ state: "queued", attempt });
      await server.clock.advance("30d");
    }
    expect(await call.outcome()).toMatchObject({ state: "succeeded", result: 4 });
    const failedAt = (await call.status()).attempts.map(({ endedAt }) => endedAt?.getTime() ?? 0);
    expect(failedAt[2]! - failedAt[0]!).toBeGreaterThanOrEqual(2 * 30 * DAY_MS);
  });

  test("ends a run whose TTL passes, and cancels its calls", async () => {
    const run = await server.client.runs.create({ ttl: "7d" });
    const call = await run.open("nobody");
    await server.clock.advance("8d");
    expect((await call.status()).state).toBe("canceled");
    expect(await server.client.runs.get(run.id)).toMatchObject({ state: "ended" });
  });

  test("brings about what becomes due in the order of its times", async () => {
    const run = await server.client.runs.create({ ttl: "5d" });
    const timeouts = ["4d", "3d", "6d"] as const;
    const calls = await Promise.all(
      timeouts.map((totalTimeout) => run.open("nobody", {}, { policy: { totalTimeout } })),
    );
    await server.clock.advance("30d");
    const ends = await Promise.all(calls.map((call) => call.outcome()));
    expect(ends.map(({ state, error }) => error?.kind ?? state)).toEqual([
      "total_timeout",
      "total_timeout",
      "canceled",
    ]);
    const [first, second, third] = ends.map(({ endedAt }) => endedAt!.getTime());
    // Each at its own time, give or take what the test itself took.
    expect(Math.round((first! - second!) / DAY_MS)).toBe(1);
    expect(Math.round((third! - first!) / DAY_MS)).toBe(1);
  });

  test("goes through many due times quickly", async () => {
    const run = await server.client.runs.create();
    const minutes = Array.from({ length: 60 }, (_, index) => index + 1);
    const calls = await Promise.all(
      minutes.map((each) => run.open("nobody", {}, { policy: { totalTimeout: `${each}m` } })),
    );
    await server.clock.advance("1h");
    const ends = await Promise.all(calls.map((call) => call.outcome()));
    expect(ends.every(({ error }) => error?.kind === "total_timeout")).toBe(true);
  });

  test("refuses what is no duration", async () => {
    await expect(server.clock.advance("3 days")).rejects.toThrow('duration: "3 days" is not a duration');
    for (const given of [3_600_000, NaN, null, undefined])
      await expect(server.clock.advance(given as never)).rejects.toMatchObject({ reason: "INVALID_FIELD" });
  });

  test("twice at once goes on by both, one after the other, and a reset waits for them", async () => {
    const warnings: string[] = [];
    const warned = (warning: Error): void => void warnings.push(warning.message);
    process.on("warning", warned);
    const run = await server.client.runs.create({ ttl: "2h" });
    const before = server.clock.now().getTime();
    const calls = await Promise.all(
      [30, 90].map((minutes) => run.open("nobody", {}, { policy: { totalTimeout: `${minutes}m` } })),
    );
    await Promise.all([server.clock.advance("1h"), server.clock.advance("1h"), server.reset()]);
    const ends = await Promise.all(calls.map((call) => call.outcome()));
    expect(ends.map(({ error }) => error?.kind)).toEqual(["total_timeout", "total_timeout"]);
    expect(Math.round((server.clock.now().getTime() - before) / 3_600_000)).toBe(2);
    process.off("warning", warned);
    expect(warnings).toEqual([]);
  });
});

describe("a handler that runs while the clock is advanced", () => {
  test.each(["stream", "poll"] as const)("keeps its claim over days, by %s", async (transport) => {
    const client = new Trunkline({ url: server.url, transport, onWarning: () => undefined });
    const work = held();
    await using worker = client.worker({ tools: { long: work.handler } });
    const run = await server.client.runs.create();
    const call = await run.open("long");
    await server.untilCall({ tool: "long", state: "claimed" });
    for (const duration of ["1m", "3d", "52w"]) {
      await server.clock.advance(duration);
      expect(await call.status()).toMatchObject({ state: "claimed", attempt: 1 });
    }
    work.answer("still here");
    expect(await call.outcome()).toMatchObject({ state: "succeeded", result: "still here", attempt: 1 });
    await worker.stop();
    await client.close();
  });

  test("is told when its attempt times out, and another attempt follows the backoff", async () => {
    const work = held();
    await using _ = serving("slow", async (input, ctx) =>
      ctx.attempt === 1 ? work.handler(input, ctx) : "again",
    );
    const run = await server.client.runs.create();
    const policy = { attemptTimeout: "10m", backoff: { initial: "1m", max: "1m" } };
    const call = await run.open("slow", {}, { policy });
    await server.untilCall({ tool: "slow", state: "claimed" });
    await server.clock.advance("9m");
    expect((await call.status()).state).toBe("claimed");
    await server.clock.advance("1m");
    expect(await call.status()).toMatchObject({
      state: "queued",
      attempts: [{ error: { kind: "attempt_timeout" } }],
    });
    await server.clock.advance("2m");
    expect(await call.outcome()).toMatchObject({ state: "succeeded", result: "again", attempt: 2 });
  });

  test("loses its claim when its process was killed before, and another worker gets it", async () => {
    const killed = new WorkerProcess({ url: server.url, name: "sleep", tools: ["sleep"] });
    const run = await server.client.runs.create();
    const call = await run.open("sleep", [{ wait: "for ever" }]);
    await server.untilCall({ tool: "sleep", state: "claimed" });
    await killed.kill();
    await using _ = serving("sleep", () => "by another");
    // The lease is by the database's clock, the end of the connection is not: the server has to hear of it first.
    await until("another worker has the call", async () => {
      await server.clock.advance("1m");
      return (await call.status()).attempt === 2;
    });
    expect(await call.outcome()).toMatchObject({ state: "succeeded", result: "by another" });
  });
});

describe("the reset between two tests", () => {
  test("leaves no call and no run, and workers and toolsets as they are", async () => {
    const work = held();
    const kept = await server.client.toolsets.put("kept", { "kept.tool": { description: "stays" } });
    await using worker = serving("kept.tool", (input, ctx) =>
      input === "hold" ? work.handler(input, ctx) : "done",
    );
    const run = await server.client.runs.create({ key: "the-run", toolset: "kept" });
    const call = await run.open("kept.tool", "hold");
    await server.untilCall({ state: "claimed" });
    const outcome = call.outcome();

    const startedAt = performance.now();
    await server.reset();
    const tookMs = performance.now() - startedAt;
    expect((await outcome).state).toBe("canceled");
    expect((await server.client.calls.list()).items).toEqual([]);
    expect((await server.client.runs.list()).items).toEqual([]);
    expect(worker.status).toBe("connected");

    const again = await server.client.runs.create({ key: "the-run", toolset: "kept" });
    expect(again.id).not.toBe(run.id);
    expect(again.info?.toolsetVersion).toBe(kept.version);
    expect(await again.call("kept.tool", "now")).toBe("done");
    console.log(`reset in ${Math.round(tookMs)} ms`);
  });

  test("keeps the time", async () => {
    const before = server.clock.now().getTime();
    await server.reset();
    const run = await server.client.runs.create();
    expect(run.info!.createdAt!.getTime()).toBeGreaterThanOrEqual(before - 1_000);
  });
});

test("a call that does not come says which there are", async () => {
  await expect(server.untilCall({ tool: "ask", within: "1ms" })).rejects.toThrow(
    'no call was seen with {"tool":"ask"} within 1ms; there is none at all',
  );
  const run = await server.client.runs.create();
  const call = await run.open("other");
  await expect(server.untilCall({ tool: "ask", within: "1ms" })).rejects.toThrow(
    `the newest first: ${call.id} of other: queued, attempt 0`,
  );
});
