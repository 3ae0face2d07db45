import { toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { CallState, FailureKind } from "@trunkline/proto/model";
import { ListRunsResponseSchema, RunState } from "@trunkline/proto/run";
import { describe, expect, test } from "vitest";
import { toDuration } from "../../server/src/service/convert.js";
import { reasonOf, refusalOf, useServing } from "./serving.js";

const serving = useServing();

async function newRun(spec: Parameters<typeof serving.runs.createRun>[0]["spec"] = {}): Promise<string> {
  const { run } = await serving.runs.createRun({ spec });
  return run?.id ?? expect.fail("no run was made");
}

describe("CreateRun", () => {
  test("a run has what its spec says, and its end from its TTL", async () => {
    const { run, created } = await serving.runs.createRun({
      spec: {
        namespace: "u1",
        labels: { team: "a", emoji: "😀" },
        ttl: toDuration(60 * 86_400_000),
        key: "all",
      },
    });
    expect(created).toBe(true);
    expect(run).toMatchObject({
      namespace: "u1",
      labels: { team: "a", emoji: "😀" },
      key: "all",
      toolset: "",
      toolsetVersion: 0,
      state: RunState.ACTIVE,
    });
    expect(Number(run?.expiresAt?.seconds) - Number(run?.createdAt?.seconds)).toBe(60 * 86_400);
  });

  test("it pins the toolset's version that is current when it is made", async () => {
    const put = (name: string) => serving.toolsets.putToolset({ id: "pins", tools: [{ name }] });
    await put("a");
    const first = await newRun({ toolset: "pins" });
    await put("b");
    const second = await newRun({ toolset: "pins" });
    const versionOf = async (runId: string) => (await serving.runs.getRun({ runId })).run?.toolsetVersion;
    expect([await versionOf(first), await versionOf(second)]).toEqual([1, 2]);
    const opens = async (runId: string, tool: string) =>
      (await serving.calls.openCalls({ runId, calls: [{ tool }] })).results[0]?.result.case;
    expect([await opens(first, "a"), await opens(first, "b")]).toEqual(["opened", "problem"]);
    expect([await opens(second, "a"), await opens(second, "b")]).toEqual(["problem", "opened"]);
  });

  test("the same key with the same content is the same run, and with other content refused", async () => {
    const id = await newRun({ key: "once", labels: { a: "1" } });
    const again = await serving.runs.createRun({ spec: { key: "once", labels: { a: "1" } } });
    expect([again.run?.id, again.created]).toEqual([id, false]);
    const error = await refusalOf(serving.runs.createRun({ spec: { key: "once", labels: { a: "2" } } }));
    expect([error.code, reasonOf(error.problem)]).toEqual([Code.AlreadyExists, "KEY_REUSED"]);
    expect(error.problem.metadata).toMatchObject({ differing: "labels" });
  });

  test("bad specs are refused by their field, and nothing is stored", async () => {
    const before = (await serving.runs.listRuns({ pageSize: 1_000 })).runs.length;
    for (const [field, spec] of Object.entries({
      "spec.namespace": { namespace: "a\u0000" },
      "spec.key": { key: "k".repeat(257) },
      "spec.toolset": { toolset: "\u0007" },
      "spec.ttl": { ttl: toDuration(0) },
      "spec.labels": {
        labels: Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`l${index}`, ""])),
      },
    })) {
      const { problem } = await refusalOf(serving.runs.createRun({ spec }));
      expect(problem.metadata["field"]).toBe(field);
    }
    expect(reasonOf((await refusalOf(serving.runs.createRun({}))).problem)).toBe("INVALID_FIELD");
    expect((await refusalOf(serving.runs.createRun({ spec: { toolset: "nobody's" } }))).code).toBe(
      Code.NotFound,
    );
    expect((await serving.runs.listRuns({ pageSize: 1_000 })).runs).toHaveLength(before);
  });
});

describe("GetRun and ListRuns", () => {
  test("a run tells how many calls it has and how many are open", async () => {
    const runId = await newRun();
    await serving.calls.openCalls({ runId, calls: [{ tool: "t" }, { tool: "t" }, { tool: "t" }] });
    await serving.calls.cancelCall({ call: { callId: `${runId}/2` } });
    expect(await serving.runs.getRun({ runId })).toMatchObject({ calls: 3, openCalls: 2 });
  });

  test.each(["", "x", "0192d4e0-7b1a-7c3e-9f4d-2a6b8c0d1e2f"])("run %j is not there", async (runId) => {
    expect((await refusalOf(serving.runs.getRun({ runId }))).code).toBe(Code.NotFound);
    expect((await refusalOf(serving.runs.endRun({ runId }))).code).toBe(Code.NotFound);
  });

  test("pages hold every run of the filter once, the newest first", async () => {
    const ids: string[] = [];
    for (let run = 0; run < 7; run++)
      ids.push(await newRun({ namespace: "listed", labels: { odd: String(run % 2) } }));
    await serving.runs.endRun({ runId: ids[0] ?? "" });
    const list = async (filter: Parameters<typeof serving.runs.listRuns>[0]): Promise<string[]> => {
      const seen: string[] = [];
      let pageToken = "";
      do {
        const page = await serving.runs.listRuns({ namespace: "listed", pageSize: 2, ...filter, pageToken });
        seen.push(...page.runs.map(({ id }) => id));
        pageToken = page.nextPageToken;
      } while (pageToken !== "");
      return seen;
    };
    const newest = [...ids].reverse();
    expect(await list({})).toEqual(newest);
    expect(await list({ state: RunState.ENDED })).toEqual([ids[0]]);
    expect(await list({ state: RunState.ACTIVE })).toEqual(newest.slice(0, -1));
    expect(await list({ labels: { odd: "1" } })).toEqual([ids[5], ids[3], ids[1]]);
  });

  test("a page of runs with large labels ends before it is too large to be received", async () => {
    const namespace = "many-labels".padEnd(256, "n");
    const labels = Object.fromEntries(
      Array.from({ length: 32 }, (_, index) => [`${index}`.padEnd(64, "n"), "v".repeat(256)]),
    );
    await Promise.all(Array.from({ length: 500 }, () => newRun({ namespace, labels })));
    const seen: string[] = [];
    let pageToken = "";
    do {
      const page = await serving.runs.listRuns({ namespace, pageSize: 1_000, pageToken });
      expect(toBinary(ListRunsResponseSchema, page).length).toBeLessThan(4 * 1024 * 1024);
      seen.push(...page.runs.map(({ id }) => id));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    expect(new Set(seen).size).toBe(500);
    expect(seen).toEqual(seen.toSorted().toReversed());
  });

  test("a token of another filter is refused", async () => {
    await newRun({ namespace: "tokens" });
    await newRun({ namespace: "tokens" });
    const { nextPageToken } = await serving.runs.listRuns({ namespace: "tokens", pageSize: 1 });
    const error = await refusalOf(serving.runs.listRuns({ namespace: "other", pageToken: nextPageToken }));
    expect(error.problem.metadata["field"]).toBe("page_token");
  });
});

describe("EndRun", () => {
  test("it cancels every open call, and no other", async () => {
    const runId = await newRun();
    const calls = Array.from({ length: 1_000 }, () => ({ tool: "t" }));
    await serving.calls.openCalls({ runId, calls });
    await serving.calls.openCalls({ runId, calls });
    await serving.calls.settleCalls({
      items: [
        { call: { callId: `${runId}/1` }, settlement: { outcome: { case: "resultJson", value: "1" } } },
      ],
    });
    const { run } = await serving.runs.endRun({ runId });
    expect(run).toMatchObject({ id: runId, state: RunState.ENDED });
    expect(await serving.runs.getRun({ runId })).toMatchObject({ calls: 2_000, openCalls: 0 });
    const { call: ended } = await serving.calls.getCall({ call: { callId: `${runId}/1` } });
    const { call: canceled } = await serving.calls.getCall({ call: { callId: `${runId}/2000` } });
    expect(ended?.state).toBe(CallState.SUCCEEDED);
    expect(canceled).toMatchObject({
      state: CallState.CANCELED,
      failure: { kind: FailureKind.CANCELED, message: "the run ended", outcomeUnknown: false },
    });
    const { rows } = await serving.database.pool().query("SELECT due_at FROM runs WHERE id = $1", [runId]);
    expect(rows).toEqual([{ due_at: null }]);
  });

  test("again is OK and changes nothing", async () => {
    const runId = await newRun();
    const first = await serving.runs.endRun({ runId });
    const second = await serving.runs.endRun({ runId });
    expect(second.run?.endedAt).toEqual(first.run?.endedAt);
  });

  test("who waits for a call of it is told", async () => {
    const runId = await newRun();
    await serving.calls.openCalls({ runId, calls: [{ tool: "t", turn: 1 }] });
    const waiting = serving.calls.waitCalls({ calls: [{ callId: `${runId}/1` }] });
    await expect.poll(() => serving.exchange.waiters.size, { interval: 5 }).toBe(1);
    await serving.runs.endRun({ runId });
    expect(await waiting).toMatchObject({ settled: true, outcomes: [{ state: CallState.CANCELED }] });
  });

  test("an open that races with the end is either refused or canceled, never left open", async () => {
    const runId = await newRun();
    const [, ...opens] = await Promise.all([
      serving.runs.endRun({ runId }),
      ...Array.from({ length: 20 }, () =>
        serving.calls.openCalls({ runId, calls: [{ tool: "t" }, { tool: "t" }] }),
      ),
    ]);
    const opened = opens.flatMap(({ results }) => results.filter(({ result }) => result.case === "opened"));
    expect(await serving.runs.getRun({ runId })).toMatchObject({ calls: opened.length, openCalls: 0 });
  });
});

test("no request of this file was a fault of the server", () => {
  expect(serving.faults).toEqual([]);
});
