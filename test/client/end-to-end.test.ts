import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  HostToolError,
  rawJson,
  TurnTimeoutError,
  type Run,
  type Trunkline,
  type Worker,
  type WorkerOptions,
} from "../../client/src/index.js";
import { gate } from "./support/claim.js";
import { useBackend } from "./support/server.js";

const backend = useBackend();

/** The same over streams, and by single requests over HTTP/1.1. */
describe.each(["stream", "poll"] as const)("by transport %s,", (transport) => {
  // By requests it takes several times as long.
  const [many, rounds] = transport === "stream" ? [500, 40] : [200, 8];
  let client: Trunkline;
  let run: Run;
  let errors: unknown[];
  let workers: Worker[];

  beforeEach(async () => {
    client = backend().client({ transport });
    run = await client.runs.create({ labels: { suite: "sdk" } });
    errors = [];
    workers = [];
  });

  afterEach(async () => {
    await run.end();
    await client.close();
  });

  const work = (tools: WorkerOptions["tools"], options: Omit<WorkerOptions, "tools"> = {}): Worker => {
    const worker = client.worker({ tools, onError: (error) => errors.push(error), ...options });
    workers.push(worker);
    return worker;
  };

  describe("a call", () => {
    test("brings back what its handler returns, digit for digit", async () => {
      work({ same: (_, ctx) => rawJson(ctx.inputJson) });
      const text = '{"id": 9007199254740993, "x": 1e400, "nul": "\\u0000", "__proto__": {"a": 1}}';
      const handle = await run.open("same", rawJson(text));
      expect(await handle.outcome()).toMatchObject({ state: "succeeded", resultJson: text });
      expect(await run.call("same", ["😀", null])).toEqual(["😀", null]);
    });

    test("fails with what its handler says", async () => {
      work({
        declined: () => {
          throw new HostToolError("card declined", { data: { code: 51 } });
        },
        broken: () => {
          throw new TypeError("x is not a function");
        },
        odd: () => ({ price: NaN }),
        large: () => "x".repeat(2 ** 20),
      });
      const failure = (tool: string): Promise<unknown> => run.call(tool).catch((error: unknown) => error);
      expect(await failure("declined")).toMatchObject({
        kind: "tool",
        message: "card declined",
        data: { code: 51 },
      });
      expect(await failure("broken")).toMatchObject({
        kind: "exception",
        message: "TypeError: x is not a function",
      });
      expect(await failure("odd")).toMatchObject({
        kind: "invalid_answer",
        message: "result.price is NaN, which JSON cannot carry",
      });
      expect(await failure("large")).toMatchObject({ kind: "oversized" });
      expect(errors).toHaveLength(3);
    });

    test("is retried when its handler says so, under the same idempotency key", async () => {
      const seen: [string, number][] = [];
      work({
        flaky: (_, ctx) => {
          seen.push([ctx.idempotencyKey, ctx.attempt]);
          if (ctx.attempt < 3) throw new HostToolError("busy", { retryable: true });
          return "at last";
        },
      });
      const policy = { backoff: { initial: "10ms" } };
      const handle = await run.open("flaky", null, { policy });
      expect(await handle.outcome()).toMatchObject({ result: "at last", attempt: 3 });
      expect(seen).toEqual([1, 2, 3].map((attempt) => [handle.id, attempt]));
      expect((await handle.status()).attempts).toMatchObject([{ number: 1 }, { number: 2 }]);
    });

    test("opened twice under one key is one call; with other content it is refused", async () => {
      let times = 0;
      work({ count: () => ++times });
      expect(await run.call("count", 1, { key: "k" })).toBe(1);
      expect(await run.call("count", 1, { key: "k" })).toBe(1);
      await expect(run.call("count", 2, { key: "k" })).rejects.toMatchObject({ reason: "KEY_REUSED" });
      const other = backend().client({ transport });
      expect(await other.runs.open(run.id).call("count", 1, { key: "k" })).toBe(1);
      await other.close();
      expect(times).toBe(1);
    });

    test("that is aborted is canceled, and its handler's signal aborts", async () => {
      const started = gate();
      const aborted = gate<unknown>();
      work({
        slow: (_, ctx) =>
          new Promise(() => {
            ctx.signal.addEventListener("abort", () => aborted.open(ctx.signal.reason));
            started.open();
          }),
      });
      const abort = new AbortController();
      const result = run.call("slow", null, { key: "s", signal: abort.signal });
      await started.promise;
      abort.abort();
      await expect(result).rejects.toMatchObject({ name: "AbortError" });
      expect(await aborted.promise).toMatchObject({ reason: "CLAIM_LOST" });
      expect((await client.calls.get({ run: run.id, key: "s" })).state).toBe("canceled");
      // The handler never ends.
      await workers[0]!.stop({ timeout: "1ms" });
    });

    test("that must not run twice runs once, after its acceptance is stored (I3)", async () => {
      let starts = 0;
      work({ pay: () => ++starts });
      expect(await run.call("pay", null, { policy: { mode: "at_most_once" } })).toBe(1);
    });

    test("is one of hundreds at once, with ten handlers at most", async () => {
      let running = 0;
      let most = 0;
      work({
        busy: async (input) => {
          most = Math.max(most, ++running);
          await new Promise(setImmediate);
          running--;
          return input;
        },
      });
      const inputs = Array.from({ length: many }, (_, index) => index);
      expect(await Promise.all(inputs.map((input) => run.call("busy", input)))).toEqual(inputs);
      expect(most).toBeLessThanOrEqual(10);
    });
  });

  describe("a deferred call", () => {
    test("is answered by its token from anywhere, and a repeat of the same is fine", async () => {
      const token = gate<string>();
      work({
        ask: async (_, ctx) => {
          const made = ctx.newToken();
          const deferred = await ctx.defer({ token: made, timeout: "30d" });
          token.open(deferred.token);
          const leftMs = (deferred.expiresAt?.getTime() ?? 0) - Date.now();
          expect(Math.abs(leftMs - 30 * 86_400_000)).toBeLessThan(60_000);
        },
      });
      const handle = await run.open("ask", { question: "ship it?" });
      const outcome = handle.outcome();
      const given = await token.promise;
      expect(await client.tasks.get(given)).toMatchObject({ tool: "ask", input: { question: "ship it?" } });
      expect(await client.tasks.complete(given, { answer: "yes" })).toEqual({ callId: handle.id });
      expect(await outcome).toMatchObject({ result: { answer: "yes" } });
      expect(await client.tasks.complete(given, { answer: "yes" })).toEqual({ callId: handle.id });
      await expect(client.tasks.complete(`${handle.id}.1.${"A".repeat(43)}`, 1)).rejects.toMatchObject({
        reason: "TOKEN_INVALID",
      });
      expect(errors).toEqual([]);
    });

    test("is settled by its id, or by a new token when the first was lost", async () => {
      work({ report: (_, ctx) => ctx.defer() });
      const [byId, byToken] = [await run.open("report", 1), await run.open("report", 2)];
      await expect.poll(async () => (await byId.status()).state).toBe("deferred");
      await expect.poll(async () => (await byToken.status()).state).toBe("deferred");
      await expect(
        client.calls.settle(byId.id, { type: "tool.result", result: 1, attempt: 9 }),
      ).rejects.toMatchObject({ reason: "STALE_ATTEMPT" });
      expect(await client.calls.settle(byId.id, { type: "tool.result", result: { pages: 3 } })).toBe(
        "succeeded",
      );
      expect(await byId.outcome()).toMatchObject({ result: { pages: 3 } });
      const { token } = await client.calls.issueToken(byToken.id);
      expect(await client.tasks.fail(token, { message: "no paper" })).toMatchObject({ state: "failed" });
      expect(await byToken.outcome()).toMatchObject({ state: "failed", error: { message: "no paper" } });
    });

    test("is not changed by what its handler does after the deferral (B10)", async () => {
      work({
        late: async (_, ctx) => {
          await ctx.defer();
          throw new Error("after all");
        },
      });
      const handle = await run.open("late");
      await expect.poll(() => errors.length).toBe(1);
      expect(await handle.status()).toMatchObject({ state: "deferred", attempt: 1 });
    });
  });

  describe("a turn", () => {
    test("settles when its last call has ended, and a wait that runs out says which are open (B04)", async () => {
      work({
        good: () => 1,
        bad: () => {
          throw new HostToolError("no");
        },
        later: (_, ctx) => ctx.defer(),
      });
      const turn = run.turn(4);
      const later = turn.open("later", null);
      void turn.open("good", null);
      void turn.open("bad", null);
      const error = await turn.settled({ timeout: "1s" }).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(TurnTimeoutError);
      const { id } = await later;
      expect(error).toMatchObject({ open: [{ callId: id, state: "deferred" }], outcomes: [{}, {}] });
      // From another client, as another process would.
      const other = backend().client({ transport });
      const settled = other.runs.open(run.id).turn(4).settled();
      await client.calls.settle(id, { type: "tool.error", error: "nobody answered" });
      const outcomes = await settled;
      expect(outcomes.map(({ tool, state }) => [tool, state])).toEqual([
        ["later", "failed"],
        ["good", "succeeded"],
        ["bad", "failed"],
      ]);
      await other.close();
    });

    test("without calls is not found", async () => {
      await expect(run.turn(99).settled()).rejects.toMatchObject({ reason: "NOT_FOUND" });
    });
  });

  describe("a worker", () => {
    test("that is stopped hands back what it has not started, and every call is answered once (B13)", async () => {
      const runs = new Map<string, number>();
      const count = (_: unknown, ctx: { idempotencyKey: string }): number => {
        runs.set(ctx.idempotencyKey, (runs.get(ctx.idempotencyKey) ?? 0) + 1);
        return 1;
      };
      const retired: Promise<void>[] = [];
      let current = work({ count }, { concurrency: 5 });
      const results: Promise<unknown>[] = [];
      for (let round = 0; round < rounds; round++) {
        results.push(...Array.from({ length: 5 }, () => run.call("count")));
        await results.at(-5);
        results.push(run.call("count"));
        const next = work({ count }, { concurrency: 5 });
        retired.push(current.stop());
        current = next;
      }
      await Promise.all([...results, ...retired]);
      expect(runs.size).toBe(results.length);
      expect([...runs.values()].every((times) => times === 1)).toBe(true);
      expect(errors).toEqual([]);
    });
  });

  describe("across a restart of the server", () => {
    test("a running handler, a deferred call, a queued call and their callers all come through (B15)", async () => {
      const started = gate();
      const finish = gate();
      const starts: string[] = [];
      work({
        long: async (_, ctx) => {
          starts.push(ctx.idempotencyKey);
          started.open();
          await finish.promise;
          return "done";
        },
        ask: (_, ctx) => ctx.defer(),
      });
      const long = run.call("long");
      const ask = await run.open("ask");
      const answered = ask.outcome();
      await started.promise;
      await expect.poll(async () => (await ask.status()).state).toBe("deferred");
      let queued: Promise<unknown> | undefined;
      await backend().restart(async () => {
        queued = run.call("long");
        finish.open();
      });
      await client.calls.settle(ask.id, { type: "tool.result", result: "yes" });
      expect(await Promise.all([long, queued])).toEqual(["done", "done"]);
      expect(await answered).toMatchObject({ result: "yes" });
      expect(starts).toHaveLength(2);
      expect(errors).toEqual([]);
    });
  });

  describe("lists and records", () => {
    test("find calls by run, state, tool and label", async () => {
      work({ a: () => 1 });
      await Promise.all([run.call("a", 1), run.call("a", 2), run.open("nobody", 3)]);
      const all: string[] = [];
      for await (const call of await client.calls.list({ run: run.id, pageSize: 2 })) all.push(call.tool);
      expect(all.toSorted()).toEqual(["a", "a", "nobody"]);
      const queued = await client.calls.list({ run: run.id, state: "queued", labels: { suite: "sdk" } });
      expect(queued.items).toMatchObject([{ tool: "nobody", state: "queued" }]);
      expect(await client.runs.get(run.id)).toMatchObject({
        calls: 3,
        openCalls: 1,
        labels: { suite: "sdk" },
      });
    });

    test("a toolset's schema and policy hold for its runs", async () => {
      await client.toolsets.put("shop", {
        find: {
          description: "Finds a customer",
          input: { type: "object", required: ["email"], properties: { email: { type: "string" } } },
          policy: { attemptTimeout: "5s" },
        },
        approve: { description: "Asks a person", executor: "client" },
      });
      const shop = await client.runs.create({ toolset: "shop" });
      await expect(shop.call("find", { mail: 1 })).rejects.toMatchObject({ reason: "SCHEMA_VIOLATION" });
      await expect(shop.call("missing")).rejects.toMatchObject({ reason: "TOOL_UNKNOWN" });
      const approval = await shop.open("approve", { amount: 3 });
      expect(await approval.status()).toMatchObject({ state: "deferred", executor: "client", attempt: 1 });
      await client.calls.settle(approval.id, { type: "tool.result", result: true });
      expect(await approval.outcome()).toMatchObject({ result: true });
      await shop.end();
      await expect(shop.call("find", { email: "x" })).rejects.toMatchObject({ reason: "RUN_ENDED" });
    });
  });
});
