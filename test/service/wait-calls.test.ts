import { Code } from "@connectrpc/connect";
import { CallState } from "@trunkline/proto/model";
import { describe, expect, test } from "vitest";
import { toDuration } from "../../server/src/service/convert.js";
import { reasonOf, refusalOf, useServing } from "./serving.js";

const serving = useServing();

const NOBODY = "0192d4e0-7b1a-7c3e-9f4d-2a6b8c0d1e2f";

async function newRun(spec: Parameters<typeof serving.runs.createRun>[0]["spec"] = {}): Promise<string> {
  const { run } = await serving.runs.createRun({ spec });
  return run?.id ?? expect.fail("no run was made");
}

type Spec = NonNullable<Parameters<typeof serving.calls.openCalls>[0]["calls"]>[number];

async function open(runId: string, ...calls: Spec[]): Promise<string[]> {
  const { results } = await serving.calls.openCalls({ runId, calls });
  return results.map(({ result }) =>
    result.case === "opened" ? result.value.callId : expect.fail(`not opened: ${result.value?.message}`),
  );
}

const succeed = (callId: string, resultJson: string) =>
  serving.calls.settleCalls({
    items: [{ call: { callId }, settlement: { outcome: { case: "resultJson", value: resultJson } } }],
  });

/** Resolves once a request waits for something here. */
async function untilWaiting(calls: number): Promise<void> {
  await expect.poll(() => serving.exchange.waiters.size, { interval: 5 }).toBeGreaterThanOrEqual(calls);
}

describe("WaitCalls", () => {
  test("a call that ends during the wait is told at once, by id and by key", async () => {
    const runId = await newRun();
    const [first = "", second = ""] = await open(runId, { tool: "t", key: "a" }, { tool: "t", key: "b" });
    const waiting = serving.calls.waitCalls({ calls: [{ callId: second }, { runId, key: "a" }] });
    await untilWaiting(2);
    await succeed(second, "2");
    await succeed(first, "1");
    const { settled, outcomes, open: left, nextAfterSeq } = await waiting;
    expect(settled).toBe(true);
    expect(outcomes.map(({ callId, resultJson }) => [callId, resultJson])).toEqual([
      [first, "1"],
      [second, "2"],
    ]);
    expect([left, nextAfterSeq]).toEqual([[], 0]);
    expect(serving.exchange.waiters.size).toBe(0);
  });

  test("a wait that runs out says which calls are open (B04)", async () => {
    const runId = await newRun();
    const [done = "", left = ""] = await open(runId, { tool: "t" }, { tool: "u", key: "k" });
    await succeed(done, "1");
    const response = await serving.calls.waitCalls({
      calls: [{ callId: left }, { callId: done }],
      timeout: toDuration(50),
    });
    expect(response.settled).toBe(false);
    expect(response.outcomes.map(({ callId }) => callId)).toEqual([done]);
    expect(response.open).toMatchObject([{ callId: left, key: "k", tool: "u", state: CallState.QUEUED }]);
    expect(serving.exchange.waiters.size).toBe(0);
  });

  test("a turn is settled only when none of its calls is open, one opened meanwhile too (I8, B04)", async () => {
    const runId = await newRun();
    const [one = "", two = ""] = await open(runId, { tool: "t", turn: 1 }, { tool: "t", turn: 1 });
    await open(runId, { tool: "t", turn: 2 });
    let answered = false;
    const waiting = serving.calls.waitCalls({ runId, turn: 1 }).finally(() => (answered = true));
    await succeed(two, "2");
    const [three = ""] = await open(runId, { tool: "t", turn: 1 });
    await succeed(one, "1");
    // The answer would be on its way by now if the turn had counted as settled.
    await serving.calls.getCall({ call: { callId: three } });
    expect(answered).toBe(false);
    await succeed(three, "3");
    const { settled, outcomes } = await waiting;
    expect(settled).toBe(true);
    expect(outcomes.map(({ callId, resultJson }) => [callId, resultJson])).toEqual([
      [one, "1"],
      [two, "2"],
      [three, "3"],
    ]);
  });

  test("outcomes above 4 MiB come in pages, each once and in order", async () => {
    const runId = await newRun();
    const ids = await open(runId, ...Array.from({ length: 6 }, () => ({ tool: "t", turn: 0 })));
    const big = (index: number): string => `"${String(index)}${"x".repeat(1_000_000)}"`;
    for (const [index, id] of ids.entries()) await succeed(id, big(index));
    for (const request of [{ runId, turn: 0 }, { calls: ids.map((callId) => ({ callId })) }]) {
      const seen: string[] = [];
      let afterSeq = 0;
      let pages = 0;
      do {
        const page = await serving.calls.waitCalls({ ...request, afterSeq });
        expect(page.settled).toBe(true);
        seen.push(...page.outcomes.map(({ callId }) => callId));
        afterSeq = page.nextAfterSeq;
        pages++;
      } while (afterSeq !== 0);
      expect(seen).toEqual(ids);
      expect(pages).toBeGreaterThan(1);
    }
  });

  test("a client that goes away leaves no wait behind", async () => {
    const runId = await newRun();
    const [callId = ""] = await open(runId, { tool: "t" });
    const leaving = new AbortController();
    const waiting = serving.calls.waitCalls({ calls: [{ callId }] }, { signal: leaving.signal });
    const refused = expect(waiting).rejects.toMatchObject({ code: Code.Canceled });
    await untilWaiting(1);
    leaving.abort();
    await refused;
    await expect.poll(() => serving.exchange.waiters.size, { interval: 5 }).toBe(0);
  });

  test("a turn without calls, and a call that is not there, are NOT_FOUND", async () => {
    const runId = await newRun();
    const [callId = ""] = await open(runId, { tool: "t" });
    for (const request of [
      { runId, turn: 5 },
      { runId: NOBODY, turn: 5 },
      { runId: "x", turn: 5 },
      { calls: [{ callId }, { callId: `${runId}/99` }] },
      { calls: [{ runId, key: "nobody's" }] },
      { calls: [{ callId: "x" }] },
    ]) {
      expect((await refusalOf(serving.calls.waitCalls(request))).code).toBe(Code.NotFound);
    }
    expect(serving.exchange.waiters.size).toBe(0);
  });

  test("a wait above 60 s, calls and turn together, neither, and calls of two runs are refused", async () => {
    const runId = await newRun();
    const [callId = ""] = await open(runId, { tool: "t" });
    const [other = ""] = await open(await newRun(), { tool: "t" });
    for (const request of [
      { calls: [{ callId }], timeout: toDuration(60_001) },
      { calls: [{ callId }], turn: 1, runId },
      { calls: [] },
      { calls: [{ callId }, { callId: other }] },
      { calls: [{ runId }] },
    ]) {
      expect(reasonOf((await refusalOf(serving.calls.waitCalls(request))).problem)).toBe("INVALID_FIELD");
    }
  });
});

test("no request of this file was a fault of the server", () => {
  expect(serving.faults).toEqual([]);
});
