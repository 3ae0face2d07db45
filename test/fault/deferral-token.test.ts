import { describe, expect, test } from "vitest";
import { useStack } from "../support/stack.js";

const stack = useStack();

const POLICY = { heartbeatTimeout: "2s", detachGrace: "1s" } as const;
const STEPS = [{ token: true }, { wait: "saved" }, { defer: {} }];

describe.concurrent("B03: the token of a worker that was killed while it deferred", () => {
  test("answers the call when the deferral was stored and only the reply to it was lost", async () => {
    const tool = "reply_lost";
    await using proxy = await stack.proxy();
    await using a = await stack.worker({ name: `${tool}_A`, tools: [tool], url: proxy.url });
    const run = await stack.client.runs.create();
    const call = await run.open(tool, STEPS, { policy: POLICY });
    const { token } = await a.told("token", call.id);
    proxy.hold("down");
    a.go("saved");
    await stack.inState(call.id, "deferred");
    await a.kill();
    await using b = await stack.worker({ name: `${tool}_B`, tools: [tool] });
    await stack.client.tasks.complete(token, "from the inbox");
    expect(await call.outcome()).toMatchObject({ state: "succeeded", attempt: 1, result: "from the inbox" });
    expect(await b.starts(call.id)).toBe(0);
  });

  test("is STALE_ATTEMPT once another attempt runs, when the deferral never arrived; the next token works", async () => {
    const tool = "never_arrived";
    await using proxy = await stack.proxy();
    await using a = await stack.worker({ name: `${tool}_A`, tools: [tool], url: proxy.url });
    const run = await stack.client.runs.create();
    const call = await run.open(tool, STEPS, { policy: POLICY });
    const first = await a.told("token", call.id);
    proxy.hold("up");
    a.go("saved");
    await a.told("deferring", call.id);
    await a.kill();
    proxy.cut("rst");
    const { tasks } = stack.client;
    await expect(tasks.complete(first.token, "lost")).rejects.toMatchObject({ reason: "TOKEN_INVALID" });
    await using b = await stack.worker({ name: `${tool}_B`, tools: [tool] });
    b.go("saved");
    const second = await b.told("deferred", call.id);
    expect(second).toMatchObject({ attempt: 2 });
    await expect(tasks.complete(first.token, "lost")).rejects.toMatchObject({ reason: "TOKEN_INVALID" });
    expect(await call.status()).toMatchObject({ state: "deferred", attempt: 2 });
    await tasks.complete(second.token, "the second");
    expect(await call.outcome()).toMatchObject({ state: "succeeded", attempt: 2, result: "the second" });
  });

  test("of an attempt whose deferral was stored and then failed is STALE_ATTEMPT, not TOKEN_INVALID", async () => {
    const tool = "failed_and_retried";
    await using worker = await stack.worker({ name: tool });
    worker.go("saved");
    const run = await stack.client.runs.create();
    const call = await run.open(tool, STEPS, { policy: { ...POLICY, backoff: { initial: "10ms" } } });
    const first = await worker.told("deferred", call.id);
    const { tasks } = stack.client;
    await tasks.fail(first.token, { message: "try again", retryable: true });
    expect(await stack.inState(call.id, "deferred")).toMatchObject({ attempt: 2 });
    await expect(tasks.complete(first.token, "late")).rejects.toMatchObject({ reason: "STALE_ATTEMPT" });
  });

  test("answers the call when the worker was killed just after the reply", async () => {
    const tool = "just_after";
    await using a = await stack.worker({ name: `${tool}_A`, tools: [tool] });
    a.go("saved");
    const run = await stack.client.runs.create();
    const call = await run.open(tool, STEPS, { policy: POLICY });
    const { token } = await a.told("deferred", call.id);
    await a.kill();
    await using b = await stack.worker({ name: `${tool}_B`, tools: [tool] });
    expect(await stack.client.tasks.complete(token, 1)).toEqual({ callId: call.id });
    expect(await call.outcome()).toMatchObject({ state: "succeeded", attempt: 1 });
    expect(await b.starts(call.id)).toBe(0);
  });

  test("is the same when the same attempt defers again", async () => {
    const tool = "again";
    await using worker = await stack.worker({ name: tool });
    const run = await stack.client.runs.create();
    const call = await run.open(tool, [{ token: true }, { defer: {} }, { defer: {} }, { wait: "end" }], {
      policy: POLICY,
    });
    const { token } = await worker.told("token", call.id);
    await worker.told("waiting", call.id);
    const deferrals = worker.events.filter(({ type }) => type === "deferred");
    expect(deferrals).toEqual([expect.objectContaining({ token }), expect.objectContaining({ token })]);
    await stack.client.tasks.complete(token, null);
    expect(await call.outcome()).toMatchObject({ state: "succeeded" });
  });
});
