import { describe, expect, test } from "vitest";
import type { Policy } from "@trunkline/sdk";
import { ServerProcess } from "../support/server-process.js";
import { attached, useStack } from "../support/stack.js";
import { somewhereWithin } from "../support/until.js";
import { WorkerProcess } from "../support/worker-process.js";

const stack = useStack();

const LEASE_MS = 2_000;
/** What a sweep and a busy machine may add to a lease. */
const SLACK_MS = 5_000;
const POLICY = { heartbeatTimeout: `${LEASE_MS}ms`, detachGrace: "500ms" } as const satisfies Policy;
const MODES = ["at_most_once", "retry"] as const;

describe.concurrent("B08: a worker that is killed while its handler runs", () => {
  test("of an at_most_once call fails it with outcome unknown, and nobody runs it again (I3)", async () => {
    const tool = "pay";
    await using a = await stack.worker({ name: `${tool}_A`, tools: [tool] });
    const run = await stack.client.runs.create();
    const call = await run.open(tool, [{ wait: "never" }], { policy: { ...POLICY, mode: "at_most_once" } });
    await a.told("waiting", call.id);
    await using idle = await stack.worker({ name: `${tool}_idle`, tools: [tool] });
    const killedAt = Date.now();
    await a.kill();
    const outcome = await call.outcome();
    expect(outcome).toMatchObject({
      state: "failed",
      attempt: 1,
      error: { kind: "worker_lost", outcomeUnknown: true },
    });
    expect((outcome.endedAt?.getTime() ?? Infinity) - killedAt).toBeLessThan(LEASE_MS + SLACK_MS);
    expect([await a.starts(call.id), await idle.starts(call.id)]).toEqual([1, 0]);
  });

  test("of a retry call has it run again as attempt 2 under the same idempotency key (I4)", async () => {
    const tool = "look_up";
    await using a = await stack.worker({ name: `${tool}_A`, tools: [tool] });
    const run = await stack.client.runs.create();
    const call = await run.open(tool, [{ wait: "end" }], { policy: POLICY });
    const first = await a.told("waiting", call.id);
    await using idle = await stack.worker({ name: `${tool}_idle`, tools: [tool] });
    idle.go("end");
    await a.kill();
    expect(await call.outcome()).toMatchObject({
      state: "succeeded",
      attempt: 2,
      result: { worker: idle.name, attempt: 2, key: first.callId },
    });
    expect(await call.status()).toMatchObject({
      spent: 2,
      attempts: [{ number: 1, worker: a.name, error: { kind: "worker_lost", outcomeUnknown: true } }],
    });
  });
});

describe.concurrent("B08: a worker that is killed before its claim reached it", () => {
  test.each(MODES)("has the %s call offered again, and run once, elsewhere", async (mode) => {
    const tool = `undelivered_${mode}`;
    await using proxy = await stack.proxy();
    await using a = await stack.worker({ name: `${tool}_A`, tools: [tool], url: proxy.url });
    proxy.hold("down");
    const run = await stack.client.runs.create();
    const call = await run.open(tool, [], { policy: { ...POLICY, mode } });
    expect(await stack.inState(call.id, "claimed")).toMatchObject({ attempt: 1, worker: a.name });
    await a.kill();
    await using idle = await stack.worker({ name: `${tool}_idle`, tools: [tool] });
    expect(await call.outcome()).toMatchObject({ state: "succeeded", attempt: 2 });
    expect([await a.starts(), await idle.starts(call.id)]).toEqual([0, 1]);
    // Only what may have started is spent: under `at_most_once` that needs the worker's acceptance.
    if (mode === "at_most_once") expect(await call.status()).toMatchObject({ spent: 1 });
  });
});

describe.concurrent("B08: a worker that is killed at any moment around a claim's arrival", () => {
  test("starts no at_most_once handler twice (I3), and every call ends", async () => {
    const tools = Array.from({ length: 4 }, (_, index) => `any_moment_${index}`);
    await using idle = await stack.worker({ name: "any_moment_idle", tools, concurrency: 100 });
    const run = await stack.client.runs.create();
    const policy = { ...POLICY, mode: "at_most_once" } as const;
    await Promise.all(
      tools.map(async (tool) => {
        await using victim = await stack.worker({ name: `${tool}_victim`, tools: [tool] });
        const opening = Array.from({ length: 6 }, () => run.open(tool, [], { policy }));
        await somewhereWithin(30);
        await victim.kill();
        for (const call of await Promise.all(opening)) {
          const outcome = await call.outcome();
          const starts = (await victim.starts(call.id)) + (await idle.starts(call.id));
          if (outcome.state === "succeeded") expect(starts).toBe(1);
          else {
            expect(outcome).toMatchObject({ error: { kind: "worker_lost", outcomeUnknown: true } });
            expect(starts).toBeLessThanOrEqual(1);
            expect(await idle.starts(call.id)).toBe(0);
          }
        }
      }),
    );
  });
});

describe.concurrent("B08: a server that is killed while a handler runs", () => {
  test.each(MODES)("keeps the %s claim for its worker: one start, and its answer counts", async (mode) => {
    const tool = `restarted_${mode}`;
    await using server = await ServerProcess.start({ databaseUrl: stack.database.url });
    await using a = new WorkerProcess({ url: server.url, name: `${tool}_A`, tools: [tool] });
    await attached(stack.database, a);
    const run = await stack.client.runs.create();
    // Workers come back within 2 s.
    const policy = { mode, heartbeatTimeout: "5s", detachGrace: "5s" } as const;
    const call = await run.open(tool, [{ wait: "end" }], { policy });
    await a.told("waiting", call.id);
    await using idle = await stack.worker({ name: `${tool}_idle`, tools: [tool] });
    await server.restart();
    await attached(stack.database, a);
    a.go("end");
    expect(await call.outcome()).toMatchObject({
      state: "succeeded",
      attempt: 1,
      result: { worker: a.name },
    });
    expect([await a.starts(call.id), await idle.starts(call.id)]).toEqual([1, 0]);
  });
});
