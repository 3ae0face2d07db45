import { describe, expect, test } from "vitest";
import { useStack } from "../support/stack.js";
import type { TcpProxy } from "../support/tcp-proxy.js";
import type { Step, WorkerProcess } from "../support/worker-process.js";

const stack = useStack();

const POLICY = { heartbeatTimeout: "2s", detachGrace: "1s" } as const;

let tools = 0;

/** A call under attempt 1, whose worker stands still behind a network of its own. */
class Paused implements AsyncDisposable {
  readonly callId: string;
  readonly runId: string;
  readonly tool: string;
  readonly a: WorkerProcess;
  readonly proxy: TcpProxy;
  #b: WorkerProcess | undefined;

  private constructor(parts: Pick<Paused, "callId" | "runId" | "tool" | "a" | "proxy">) {
    this.callId = parts.callId;
    this.runId = parts.runId;
    this.tool = parts.tool;
    this.a = parts.a;
    this.proxy = parts.proxy;
  }

  /** Opens a call that waits at the gate "end" and then does what `last` says. */
  static async open(...last: readonly Step[]): Promise<Paused> {
    const tool = `replaced_${++tools}`;
    const proxy = await stack.proxy();
    const a = await stack.worker({ name: `${tool}_A`, tools: [tool], url: proxy.url });
    const run = await stack.client.runs.create();
    const { id: callId } = await run.open(tool, [{ wait: "end" }, ...last], { policy: POLICY });
    await a.told("waiting", callId);
    a.pause();
    return new Paused({ callId, runId: run.id, tool, a, proxy });
  }

  /** Starts another worker, which gets attempt 2 when the lease has lapsed. */
  async replace(): Promise<WorkerProcess> {
    const b = await stack.worker({ name: `${this.tool}_B`, tools: [this.tool] });
    this.#b = b;
    expect(await b.told("start", this.callId)).toMatchObject({ attempt: 2, key: this.callId });
    return b;
  }

  /** A goes on, and its handler ends before it can hear of anything: its answer is sent all the same. */
  async answerLate(): Promise<void> {
    this.proxy.refuse();
    this.a.go("end");
    this.a.resume();
    await this.a.told("end", this.callId);
    this.proxy.cut("rst");
    this.proxy.release();
    this.proxy.admit();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.a.kill(), this.#b?.kill()]);
    await this.proxy[Symbol.asyncDispose]();
  }
}

describe.concurrent("B01: the late answer of a replaced attempt", () => {
  test("changes nothing while the next attempt runs, and is refused as CLAIM_LOST", async () => {
    await using paused = await Paused.open();
    const { callId, a } = paused;
    const b = await paused.replace();
    await paused.answerLate();
    expect(await a.told("error", callId)).toMatchObject({ reason: "CLAIM_LOST" });
    expect(await stack.client.calls.get(callId)).toMatchObject({ state: "claimed", attempt: 2 });
    b.go("end");
    const ended = await stack.inState(callId, "succeeded");
    expect(ended.result).toEqual({ worker: b.name, attempt: 2, key: callId });
    expect([await a.starts(callId), await b.starts(callId)]).toEqual([1, 1]);
  });

  test("that is a failure changes nothing either", async () => {
    await using paused = await Paused.open({ throw: "too late", data: { from: "A" } });
    const { callId, a } = paused;
    const b = await paused.replace();
    await paused.answerLate();
    expect(await a.told("error", callId)).toMatchObject({ reason: "CLAIM_LOST" });
    const call = await stack.client.calls.get(callId);
    expect(call).toMatchObject({ state: "claimed", attempt: 2, worker: b.name });
    expect(call.attempts.map(({ number, error }) => [number, error.kind])).toEqual([[1, "worker_lost"]]);
  });

  test("leaves value, end time and attempt of the one that ended the call as they were", async () => {
    await using paused = await Paused.open();
    const { callId, a } = paused;
    const b = await paused.replace();
    b.go("end");
    const ended = await stack.inState(callId, "succeeded");
    expect(ended.result).toEqual({ worker: b.name, attempt: 2, key: callId });
    await paused.answerLate();
    expect(await a.told("error", callId)).toMatchObject({ reason: "CLAIM_LOST" });
    expect(await stack.client.calls.get(callId)).toEqual(ended);
  });

  test("is not even made when its worker hears of the loss first: the handler's signal aborts", async () => {
    await using paused = await Paused.open();
    const { callId, a } = paused;
    const b = await paused.replace();
    a.resume();
    expect(await a.told("aborted", callId)).toMatchObject({ reason: "CLAIM_LOST" });
    a.go("end");
    await a.told("end", callId);
    b.go("end");
    expect((await stack.inState(callId, "succeeded")).result).toMatchObject({ worker: b.name });
  });

  test("is refused after the run was ended", async () => {
    await using paused = await Paused.open();
    const { callId, a } = paused;
    // The revocation gets lost on its way.
    paused.proxy.hold("down");
    await stack.client.runs.end(paused.runId);
    const ended = await stack.inState(callId, "canceled");
    await paused.answerLate();
    expect(await a.told("error", callId)).toMatchObject({ reason: "CLAIM_LOST" });
    expect(await stack.client.calls.get(callId)).toEqual(ended);
  });

  test("is refused as STALE_ATTEMPT when it settles by id, and as CALL_ENDED without its attempt", async () => {
    await using paused = await Paused.open();
    const { callId } = paused;
    const { calls } = stack.client;
    const b = await paused.replace();
    const late = { type: "tool.result", result: "late" } as const;
    await expect(calls.settle(callId, { ...late, attempt: 1 })).rejects.toMatchObject({
      reason: "STALE_ATTEMPT",
    });
    expect(await calls.get(callId)).toMatchObject({ state: "claimed", attempt: 2 });
    b.go("end");
    const ended = await stack.inState(callId, "succeeded");
    await expect(calls.settle(callId, { ...late, attempt: 1 })).rejects.toMatchObject({
      reason: "STALE_ATTEMPT",
    });
    await expect(calls.settle(callId, late)).rejects.toMatchObject({ reason: "CALL_ENDED" });
    expect(await calls.get(callId)).toEqual(ended);
  });
});
