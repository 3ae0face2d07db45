import { describe, expect, test } from "vitest";
import { TurnTimeoutError, type Trunkline, type CallHandle, type Outcome } from "@trunkline/sdk";
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
