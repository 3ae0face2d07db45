import { describe, expect, test } from "vitest";
import {
  BatchError,
  TurnTimeoutError,
  type BatchCall,
  type CallHandle,
  type Outcome,
  type Trunkline,
} from "@trunkline/sdk";
import { ServerProcess } from "../support/server-process.js";
import { clientOf, useStack } from "../support/stack.js";

const stack = useStack();

const NOBODY = { totalTimeout: "5s" } as const;

/** The calls that a wait which ran out names as open, by their ids. */
async function openAfter(wait: Promise<unknown>): Promise<readonly string[]> {
  const error = await wait.then(
    () => expect.fail("the turn was reported settled too early"),
    (reason: unknown) => reason,
  );
  if (!(error instanceof TurnTimeoutError)) throw error;
  return error.open.map(({ callId }) => callId);
}

function summary(outcomes: readonly Outcome[]): unknown[] {
  return outcomes.map(({ callId, state, error }) => [Number(callId.split("/")[1]), state, error?.kind]);
}

/** The four calls of the case: one answers, one fails, one is deferred, one has no worker at all. */
async function openFour(
  url: string,
  tool: string,
): Promise<{ runId: string; calls: readonly CallHandle[]; harness: Trunkline }> {
  const harness = clientOf(url);
  const run = await harness.runs.create();
  const turn = run.turn(1);
  const calls = [
    await turn.open(tool, [{ return: 1 }]),
    await turn.open(tool, [{ throw: "no such customer", retryable: false }]),
    await turn.open(tool, [{ defer: {} }]),
    await turn.open("served_by_nobody", [], { policy: NOBODY }),
  ];
  return { runId: run.id, calls, harness };
}

describe.concurrent("B04: a turn is settled only when all of its calls have ended", () => {
  test("across waits that run out, a harness that comes back, and a call opened meanwhile", async () => {
    const tool = "gated";
    await using worker = await stack.worker({ name: tool });
    const { runId, calls, harness } = await openFour(stack.server.url, tool);
    const [, , deferred, unserved] = calls.map(({ id }) => id);
    await worker.told("deferred", deferred);
    const turn = harness.runs.open(runId).turn(1);
    expect(await openAfter(turn.settled({ timeout: "1s" }))).toEqual([deferred, unserved]);
    await harness.close();

    await using again = clientOf(stack.server.url);
    const sameTurn = again.runs.open(runId).turn(1);
    const settled = sameTurn.settled();
    const fifth = await sameTurn.open(tool, [{ wait: "end" }, { return: 5 }]);
    await worker.told("waiting", fifth.id);
    await stack.client.calls.settle(deferred ?? "", { type: "tool.result", result: "by id" });
    await stack.inState(unserved ?? "", "failed");
    expect(await openAfter(sameTurn.settled({ timeout: "200ms" }))).toEqual([fifth.id]);
    worker.go("end");
    const expected = [
      [1, "succeeded", undefined],
      [2, "failed", "tool"],
      [3, "succeeded", undefined],
      [4, "failed", "total_timeout"],
      [5, "succeeded", undefined],
    ];
    expect(summary(await settled)).toEqual(expected);
    expect(summary(await sameTurn.settled())).toEqual(expected);
  });

  test("across a restart of the server between two waits, and one during a wait", async () => {
    const tool = "gated_over_restarts";
    await using server = await ServerProcess.start({ databaseUrl: stack.database.url });
    await using worker = await stack.worker({ name: tool, url: server.url });
    const { runId, calls, harness } = await openFour(server.url, tool);
    await using _ = harness;
    const [, , deferred, unserved] = calls.map(({ id }) => id);
    await worker.told("deferred", deferred);
    const turn = harness.runs.open(runId).turn(1);
    expect(await openAfter(turn.settled({ timeout: "500ms" }))).toEqual([deferred, unserved]);
    await server.restart();
    expect(await openAfter(turn.settled({ timeout: "500ms" }))).toEqual([deferred, unserved]);
    const settled = turn.settled();
    await server.kill();
    await stack.client.calls.settle(deferred ?? "", { type: "tool.result", result: "by id" });
    await server.start();
    expect(summary(await settled)).toEqual([
      [1, "succeeded", undefined],
      [2, "failed", "tool"],
      [3, "succeeded", undefined],
      [4, "failed", "total_timeout"],
    ]);
  });
});

/** How soon a worker that was killed is missed. */
const SOON_MISSED = { heartbeatTimeout: "700ms", detachGrace: "100ms" } as const;

const numbersOf = (outcomes: readonly Outcome[]): unknown[] =>
  outcomes.map(({ callId, key, result }) => [Number(callId.split("/")[1]), key, result]);

/** A decision of three calls: two answer, one waits for `gate`. */
const decision = (tool: string, gate: string): BatchCall[] => [
  { tool, input: [{ return: "a" }], key: "toolu_a" },
  { tool, input: [{ wait: gate }, { return: "b" }], key: "toolu_b", policy: SOON_MISSED },
  { tool, input: [{ return: "c" }], key: "toolu_c" },
];

describe.concurrent("a model's decision, opened in one batch", () => {
  test("opened again after a crash, by another process, opens nothing twice", async () => {
    const tool = "repeated";
    await using worker = await stack.worker({ name: tool });
    const run = await stack.client.runs.create();
    const first = await run.turn(1).openAll(decision(tool, "end"));
    await worker.told("waiting", first[1]!.id);

    await using restarted = clientOf(stack.server.url);
    const turn = restarted.runs.open(run.id).turn(1);
    const again = await turn.openAll(decision(tool, "end"));
    expect(again.map(({ id, created }) => [id, created])).toEqual(first.map(({ id }) => [id, false]));
    worker.go("end");
    expect(numbersOf(await turn.settled())).toEqual([
      [1, "toolu_a", "a"],
      [2, "toolu_b", "b"],
      [3, "toolu_c", "c"],
    ]);
    expect(await worker.starts()).toBe(3);
    expect(await stack.client.runs.get(run.id)).toMatchObject({ calls: 3, openCalls: 0 });
  });

  test("with other content under a key is refused where it differs, and changes nothing", async () => {
    const tool = "other_content";
    await using worker = await stack.worker({ name: tool });
    const turn = (await stack.client.runs.create()).turn(1);
    const opened = await turn.openAll(decision(tool, "end"));
    const other = decision(tool, "end").with(2, { tool, input: [{ return: "d" }], key: "toolu_c" });
    const error: unknown = await turn.openAll(other).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(BatchError);
    expect(error).toMatchObject({
      reason: "KEY_REUSED",
      refused: [{ index: 2, key: "toolu_c", error: { code: "ALREADY_EXISTS" } }],
      opened: [{ id: opened[0]!.id }, { id: opened[1]!.id }, undefined],
    });
    worker.go("end");
    expect((await turn.settled()).map(({ result }) => result)).toEqual(["a", "b", "c"]);
  });

  test("shows what has ended while the rest goes on, here and to other processes", async () => {
    const tool = "seen_early";
    await using worker = await stack.worker({ name: tool });
    const run = await stack.client.runs.create();
    const turn = run.turn(1);
    const [a, b, c] = await turn.openAll(decision(tool, "end"));
    const settled = turn.settled();
    expect([await a!.outcome(), await c!.outcome()]).toMatchObject([{ result: "a" }, { result: "c" }]);
    await using elsewhere = clientOf(stack.server.url);
    const status = await elsewhere.runs.open(run.id).turn(1).status();
    expect(numbersOf(status.outcomes)).toEqual([
      [1, "toolu_a", "a"],
      [3, "toolu_c", "c"],
    ]);
    expect(status).toMatchObject({ settled: false, open: [{ callId: b!.id, key: "toolu_b", tool }] });
    worker.go("end");
    expect(await settled).toHaveLength(3);
    expect(await turn.status()).toMatchObject({ settled: true, open: [] });
  });

  test("is waited for although its worker and the server are killed meanwhile", async () => {
    const tool = "both_killed";
    await using server = await ServerProcess.start({ databaseUrl: stack.database.url });
    await using harness = clientOf(server.url);
    const turn = (await harness.runs.create()).turn(1);
    await using worker = await stack.worker({ name: tool, url: server.url });
    const [first, waiting] = await turn.openAll(decision(tool, "end"));
    const settled = turn.settled();
    await first!.outcome();
    await worker.told("waiting", waiting!.id);
    await worker.kill();
    await server.restart();
    await using second = await stack.worker({ name: `${tool}_2`, tools: [tool], url: server.url });
    await second.told("waiting", waiting!.id);
    second.go("end");
    const outcomes = await settled;
    expect(outcomes.map(({ result }) => result)).toEqual(["a", "b", "c"]);
    expect(outcomes.map(({ attempt }) => attempt).slice(0, 2)).toEqual([1, 2]);
  });
});
