import { toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { ListCallsResponseSchema } from "@trunkline/proto/call";
import { CallState, Executor, FailureKind } from "@trunkline/proto/model";
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

describe("OpenCalls", () => {
  test("calls get their numbers in the order of asking", async () => {
    const runId = await newRun();
    const ids = await open(runId, ...Array.from({ length: 20 }, () => ({ tool: "t" })));
    expect(ids).toEqual(Array.from({ length: 20 }, (_, index) => `${runId}/${index + 1}`));
  });

  test("one bad call harms no other of its request (I11)", async () => {
    const runId = await newRun();
    const { results } = await serving.calls.openCalls({
      runId,
      calls: [
        { tool: "a" },
        { tool: "b", inputJson: "{" },
        { tool: "c" },
        { tool: "d", inputJson: '"\u0000"' },
      ],
    });
    expect(results.map(({ result }) => result.case)).toEqual(["opened", "problem", "opened", "problem"]);
    const problem =
      results[1]?.result.case === "problem" ? results[1].result.value : expect.fail("no problem");
    expect(reasonOf(problem)).toBe("INVALID_JSON");
    expect(problem.code).toBe(Code.InvalidArgument);
    expect(problem.message).toMatch(/^calls\[1\]\.input_json is not JSON/);
    const { calls } = await serving.runs.getRun({ runId });
    expect(calls).toBe(2);
  });

  test("half an emoji is refused before anything is stored (B06)", async () => {
    const runId = await newRun();
    const { calls } = serving.clients({ protocol: "json" });
    for (const inputJson of ['"\ud83d"', '"\ude00"']) {
      const opening = calls.openCalls({ runId, calls: [{ tool: "t" }, { tool: "t", inputJson }] });
      await expect(opening).rejects.toMatchObject({
        code: Code.InvalidArgument,
        message: expect.stringContaining("input_json"),
      });
    }
    expect((await serving.runs.getRun({ runId })).calls).toBe(0);
  });

  test("the same key with the same content is the same call, and with other content refused", async () => {
    const runId = await newRun();
    const [first] = await open(runId, { tool: "t", key: "k", inputJson: "1" });
    const { results } = await serving.calls.openCalls({
      runId,
      calls: [
        { tool: "t", key: "k", inputJson: "1" },
        { tool: "t", key: "k", inputJson: "2" },
      ],
    });
    expect(results[0]?.result).toMatchObject({
      case: "opened",
      value: { callId: first, created: false, key: "k" },
    });
    expect(results[1]?.result).toMatchObject({
      case: "problem",
      value: {
        code: Code.AlreadyExists,
        message: `key "k" names call ${first} with another input; what is sent again must be the same`,
      },
    });
  });

  test("a call without a key gets one that finds it", async () => {
    const runId = await newRun();
    const { results } = await serving.calls.openCalls({ runId, calls: [{ tool: "t" }] });
    const opened = results[0]?.result.case === "opened" ? results[0].result.value : expect.fail("not opened");
    const { call } = await serving.calls.getCall({ call: { runId, key: opened.key } });
    expect(call?.id).toBe(opened.callId);
  });

  test("nobody serving the tool is said, but not of a tool of the client's side", async () => {
    await serving.toolsets.putToolset({
      id: "seen",
      tools: [{ name: "w" }, { name: "c", executor: Executor.CLIENT }],
    });
    const runId = await newRun({ toolset: "seen" });
    const { results } = await serving.calls.openCalls({ runId, calls: [{ tool: "w" }, { tool: "c" }] });
    const noWorker = results.map(({ result }) =>
      result.case === "opened" ? result.value.noWorker : undefined,
    );
    expect(noWorker).toEqual([true, false]);
  });

  test("a timeout that would outlast the run is cut to it, and the reply says so", async () => {
    const runId = await newRun({ ttl: toDuration(3_600_000) });
    const { results } = await serving.calls.openCalls({
      runId,
      calls: [
        { tool: "t", policy: { totalTimeout: toDuration(7_200_000) } },
        { tool: "t", policy: { totalTimeout: toDuration(1_000_000) } },
      ],
    });
    const cut = results.map(({ result }) => (result.case === "opened" ? result.value.cutToRun : undefined));
    expect(cut).toEqual([true, false]);
    const { run } = await serving.runs.getRun({ runId });
    const { call } = await serving.calls.getCall({ call: { callId: `${runId}/1` } });
    expect(call?.totalTimeoutAt).toEqual(run?.expiresAt);
  });

  test.each(["", "x", NOBODY])("run %j is not there", async (runId) => {
    const error = await refusalOf(serving.calls.openCalls({ runId, calls: [{ tool: "t" }] }));
    expect(error.code).toBe(Code.NotFound);
    expect(reasonOf(error.problem)).toBe("NOT_FOUND");
  });

  test("an ended run takes no calls", async () => {
    const runId = await newRun();
    await serving.runs.endRun({ runId });
    const { results } = await serving.calls.openCalls({ runId, calls: [{ tool: "t" }] });
    expect(results[0]?.result).toMatchObject({ case: "problem", value: { code: Code.FailedPrecondition } });
  });

  test("no calls, and more than 1,000, are refused as a whole", async () => {
    const runId = await newRun();
    expect((await refusalOf(serving.calls.openCalls({ runId, calls: [] }))).message).toContain(
      "calls is empty",
    );
    const many = Array.from({ length: 1_001 }, () => ({ tool: "t" }));
    const error = await refusalOf(serving.calls.openCalls({ runId, calls: many }));
    expect(error.problem.metadata).toMatchObject({ limit: "items", size: "1001", max: "1000" });
  });

  test("input of 50 MiB ends the request, not the server (B23)", async () => {
    const runId = await newRun();
    const big = { tool: "t", inputJson: `"${"x".repeat(50 * 1024 * 1024)}"` };
    await expect(serving.calls.openCalls({ runId, calls: [big] })).rejects.toMatchObject({
      code: Code.ResourceExhausted,
    });
    expect(await open(runId, { tool: "t" })).toHaveLength(1);
  });
});

describe("GetCall and ListCalls", () => {
  test("a call is shown with its input, digit for digit", async () => {
    const runId = await newRun({ namespace: "u1", labels: { team: "a" } });
    const inputJson = '{"n": 9007199254740993, "n": 1e400, "e": "\\u0000 😀"}';
    const [callId = ""] = await open(runId, { tool: "t", inputJson, turn: 3 });
    const { call } = await serving.calls.getCall({ call: { callId } });
    expect(call).toMatchObject({
      id: callId,
      inputJson,
      turn: 3,
      namespace: "u1",
      labels: { team: "a" },
      state: CallState.QUEUED,
      attempt: 0,
      policy: { maxAttempts: 5 },
    });
  });

  test("pages hold every call once, the newest first (S10)", async () => {
    const runId = await newRun();
    const ids = await open(runId, ...Array.from({ length: 25 }, () => ({ tool: "paged" })));
    const seen: string[] = [];
    let pageToken = "";
    do {
      const page = await serving.calls.listCalls({ tool: "paged", pageSize: 10, pageToken });
      expect(page.calls.length).toBeLessThanOrEqual(10);
      seen.push(...page.calls.map(({ id }) => id));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    expect(seen).toEqual([...ids].reverse());
  });

  test("filters by state, label, turn and end user hold together", async () => {
    const runId = await newRun({ namespace: "filtered", labels: { team: "x", env: "y" } });
    const [first = "", second = ""] = await open(runId, { tool: "t", turn: 1 }, { tool: "t", turn: 2 });
    await succeed(first, "1");
    const idsOf = async (filter: Parameters<typeof serving.calls.listCalls>[0]): Promise<string[]> =>
      (await serving.calls.listCalls({ namespace: "filtered", ...filter })).calls.map(({ id }) => id);
    expect(await idsOf({ states: [CallState.SUCCEEDED] })).toEqual([first]);
    expect(await idsOf({ states: [CallState.QUEUED, CallState.CLAIMED] })).toEqual([second]);
    expect(await idsOf({ labels: { team: "x" }, turn: 2 })).toEqual([second]);
    expect(await idsOf({ labels: { team: "z" } })).toEqual([]);
    expect(await idsOf({ runId })).toEqual([second, first]);
  });

  test("a page of payloads ends before it is too large to be received", async () => {
    const runId = await newRun();
    const inputJson = `"${"x".repeat(1_000_000)}"`;
    for (let call = 0; call < 6; call++) await open(runId, { tool: "big", inputJson });
    const first = await serving.calls.listCalls({ runId, payloads: true });
    expect(first.calls).toHaveLength(3);
    const second = await serving.calls.listCalls({ runId, payloads: true, pageToken: first.nextPageToken });
    expect(second.calls.map(({ id }) => id)).toEqual([`${runId}/3`, `${runId}/2`, `${runId}/1`]);
    expect(second.nextPageToken).toBe("");
    expect((await serving.calls.listCalls({ runId })).calls).toHaveLength(6);
  });

  test("a page of calls with large labels and names ends before it is too large to be received", async () => {
    const labels = Object.fromEntries(
      Array.from({ length: 32 }, (_, index) => [`${index}`.padEnd(64, "n"), "v".repeat(256)]),
    );
    const runId = await newRun({ labels, namespace: "n".repeat(256) });
    const keys = Array.from({ length: 1_000 }, (_, index) => `${index}`.padEnd(256, "k"));
    await open(runId, ...keys.map((key) => ({ tool: "t".repeat(128), key })));
    const seen: string[] = [];
    let pages = 0;
    let pageToken = "";
    do {
      const page = await serving.calls.listCalls({ runId, pageSize: 1_000, pageToken });
      pages++;
      expect(toBinary(ListCallsResponseSchema, page).length).toBeLessThan(4 * 1024 * 1024);
      seen.push(...page.calls.map(({ key }) => key));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    expect(seen).toEqual(keys.toReversed());
    expect(pages).toBeLessThan(6);
  });

  test("a garbled page token, and one of another list, are refused", async () => {
    const runId = await newRun();
    await open(runId, { tool: "t" }, { tool: "t" });
    const { nextPageToken } = await serving.calls.listCalls({ runId, pageSize: 1 });
    expect(nextPageToken).not.toBe("");
    for (const request of [
      { runId, pageToken: "garbled" },
      { tool: "t", pageToken: nextPageToken },
      { runId, pageToken: Buffer.from('["calls:x",["a",1]]').toString("base64url") },
    ]) {
      const error = await refusalOf(serving.calls.listCalls(request));
      expect(error.problem.metadata["field"]).toBe("page_token");
    }
    expect((await refusalOf(serving.runs.listRuns({ pageToken: nextPageToken }))).code).toBe(
      Code.InvalidArgument,
    );
  });

  test("bad filters are refused by name, and never reach the database", async () => {
    const NUL = "a\u0000";
    for (const [field, request] of Object.entries({
      tool: { tool: NUL },
      namespace: { namespace: NUL },
      "labels name": { labels: { [NUL]: "" } },
      page_size: { pageSize: 1_001 },
      turn: { turn: 2 ** 31 },
      "states[0]": { states: [77 as never] },
    })) {
      const error = await refusalOf(serving.calls.listCalls(request));
      expect(error.problem.metadata["field"]).toBe(field);
    }
    expect((await refusalOf(serving.calls.listCalls({ runId: NUL }))).code).toBe(Code.NotFound);
  });
});

describe("CancelCall and SettleCalls", () => {
  test("a canceled call is final: what comes after changes nothing (I1)", async () => {
    const runId = await newRun();
    const [callId = ""] = await open(runId, { tool: "t" });
    expect(await serving.calls.cancelCall({ call: { callId } })).toMatchObject({
      callId,
      state: CallState.CANCELED,
    });
    expect(await serving.calls.cancelCall({ call: { callId } })).toMatchObject({ state: CallState.CANCELED });
    const { results } = await succeed(callId, "1");
    expect(results[0]).toMatchObject({
      callId,
      state: CallState.CANCELED,
      problem: { code: Code.FailedPrecondition },
    });
    const { call } = await serving.calls.getCall({ call: { callId } });
    expect(call).toMatchObject({
      state: CallState.CANCELED,
      resultJson: "",
      failure: { kind: FailureKind.CANCELED },
    });
  });

  test("a call that had ended is left as it is, and the answer says how", async () => {
    const runId = await newRun();
    const [callId = ""] = await open(runId, { tool: "t" });
    await succeed(callId, "1");
    expect(await serving.calls.cancelCall({ call: { callId } })).toMatchObject({
      state: CallState.SUCCEEDED,
    });
  });

  test("in a batch of 10 settlements only the bad ones are refused (B06, I11)", async () => {
    const runId = await newRun();
    const ids = await open(runId, ...Array.from({ length: 10 }, () => ({ tool: "t" })));
    const values = ids.map((_, index) => (index === 4 ? '"😀' : index === 6 ? '"\u0000"' : '"\\u0000 😀"'));
    const { results } = await serving.calls.settleCalls({
      items: ids.map((callId, index) => ({
        call: { callId },
        settlement: { outcome: { case: "resultJson" as const, value: values[index] ?? "" } },
      })),
    });
    expect(results.map(({ problem }) => problem !== undefined)).toEqual(
      ids.map((_, index) => [4, 6].includes(index)),
    );
    expect(results[4]?.problem?.message).toMatch(/^items\[4\]\.settlement\.result_json is not JSON/);
    const { call } = await serving.calls.getCall({ call: { callId: ids[4] ?? "" } });
    expect(call?.state).toBe(CallState.QUEUED);
    const { call: good } = await serving.calls.getCall({ call: { callId: ids[5] ?? "" } });
    expect(good?.resultJson).toBe('"\\u0000 😀"');
  });

  test("the same settlement again is OK, and another is refused", async () => {
    const runId = await newRun();
    const [callId = ""] = await open(runId, { tool: "t" });
    await succeed(callId, "1");
    expect((await succeed(callId, "1")).results[0]?.problem).toBeUndefined();
    expect(reasonOf((await succeed(callId, "2")).results[0]?.problem ?? expect.fail("OK"))).toBe(
      "CALL_ENDED",
    );
  });

  test("another attempt than the last is refused, and nothing changes", async () => {
    const runId = await newRun();
    const [callId = ""] = await open(runId, { tool: "t" });
    const settlement = { outcome: { case: "resultJson" as const, value: "1" } };
    const { results } = await serving.calls.settleCalls({
      items: [{ call: { callId }, attempt: 3, settlement }],
    });
    expect(reasonOf(results[0]?.problem ?? expect.fail("OK"))).toBe("STALE_ATTEMPT");
    expect(results[0]?.state).toBe(CallState.QUEUED);
  });

  test("a result that the tool's output schema refuses changes nothing", async () => {
    await serving.toolsets.putToolset({
      id: "out",
      tools: [{ name: "t", outputSchemaJson: '{"type":"number"}' }],
    });
    const runId = await newRun({ toolset: "out" });
    const [callId = ""] = await open(runId, { tool: "t" });
    const { results } = await succeed(callId, '"x"');
    expect(reasonOf(results[0]?.problem ?? expect.fail("OK"))).toBe("SCHEMA_VIOLATION");
    expect(results[0]?.state).toBe(CallState.QUEUED);
    expect((await succeed(callId, "1")).results[0]?.state).toBe(CallState.SUCCEEDED);
  });

  test("a call that is not there is refused in its item alone", async () => {
    const runId = await newRun();
    const [callId = ""] = await open(runId, { tool: "t", key: "mine" });
    const settlement = { outcome: { case: "resultJson" as const, value: "1" } };
    const { results } = await serving.calls.settleCalls({
      items: [
        { call: { callId: `${NOBODY}/1` }, settlement },
        { call: { runId, key: "nobody's" }, settlement },
        { settlement },
        { call: { runId, key: "mine" }, settlement },
      ],
    });
    expect(results.map(({ problem }) => problem?.code)).toEqual([
      Code.NotFound,
      Code.NotFound,
      Code.InvalidArgument,
      undefined,
    ]);
    expect(results[3]).toMatchObject({ callId, state: CallState.SUCCEEDED });
  });
});

describe("IssueToken", () => {
  test("a deferred call gets a token that answers it, any other none", async () => {
    await serving.toolsets.putToolset({
      id: "tokens",
      tools: [
        { name: "ask", executor: Executor.CLIENT, policy: { deferTimeout: toDuration(30 * 86_400_000) } },
        { name: "work" },
      ],
    });
    const runId = await newRun({ toolset: "tokens", ttl: toDuration(60 * 86_400_000) });
    const [asked = "", worked = ""] = await open(runId, { tool: "ask" }, { tool: "work" });
    const { token, expiresAt } = await serving.calls.issueToken({ call: { callId: asked } });
    expect(token.startsWith(`${asked}.1.`)).toBe(true);
    const { call } = await serving.calls.getCall({ call: { callId: asked } });
    expect(expiresAt).toEqual(call?.deferTimeoutAt);
    const opened = Number(call?.openedAt?.seconds);
    expect(Number(expiresAt?.seconds) - opened).toBe(30 * 86_400);
    await serving.tasks.completeTask({ token, resultJson: "1" });
    const error = await refusalOf(serving.calls.issueToken({ call: { callId: worked } }));
    expect(reasonOf(error.problem)).toBe("CALL_NOT_DEFERRED");
  });
});

test("no request of this file was a fault of the server", () => {
  expect(serving.faults).toEqual([]);
});
