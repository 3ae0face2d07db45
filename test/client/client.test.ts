import { readFileSync } from "node:fs";
import { inspect } from "node:util";
import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { ListCallsRequest, SettleItem } from "@trunkline/proto/call";
import { CallSchema, CallState, FailureKind } from "@trunkline/proto/model";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";
import { RunSchema, RunState, type RunSpec } from "@trunkline/proto/run";
import type { CompleteTaskRequest } from "@trunkline/proto/task";
import { ToolsetSchema, type PutToolsetRequest } from "@trunkline/proto/toolset";
import { describe, expect, test } from "vitest";
import { rawJson, Trunkline, TrunklineError, VERSION } from "../../client/src/index.js";
import { Peer, type Unary } from "./support/peer.js";

const KEY = "tl_secret_0123456789";

const connected = async (unary: Unary): Promise<{ peer: Peer; client: Trunkline }> => {
  const peer = await Peer.start(unary);
  return { peer, client: new Trunkline({ url: peer.url, key: KEY, onWarning: () => undefined }) };
};

const shown = (value: unknown): string =>
  inspect(value, { depth: 20, showHidden: true }) + JSON.stringify(value);

describe("new Trunkline", () => {
  test("its key is in nothing that is shown (S14)", async () => {
    const { peer, client } = await connected({});
    await using _ = peer;
    const worker = client.worker({ tools: { echo: () => 1 } });
    const error = await client.calls.get("r1/1").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(TrunklineError);
    expect(shown(client) + shown(worker) + shown(client.calls) + shown(error)).not.toContain("secret");
    expect(inspect(client)).toBe(`Trunkline(${peer.url})`);
    await client.close();
  });

  test.each(["tl_secret\n", "tl secret", "tl_secret\u0000", "tl_sécret", ""])(
    "the key %j is refused without being shown (S14)",
    (key) => {
      const refused = (): unknown => new Trunkline({ key });
      expect(refused).toThrow(/^key: .*allowed are visible ASCII characters$/);
      expect(refused).not.toThrow(/cret/);
    },
  );

  test.each(["127.0.0.1:7788", "ftp://h", "", "http://user:pass@h", "nonsense"])(
    "the URL %j is refused",
    (url) => {
      expect(() => new Trunkline({ url })).toThrow(/^url: /);
      expect(() => new Trunkline({ url })).not.toThrow(/pass@/);
    },
  );

  test("the environment is asked when nothing is given", () => {
    const before = { ...process.env };
    process.env["TRUNKLINE_URL"] = "https://trunkline.example/";
    expect(new Trunkline().url).toBe("https://trunkline.example");
    process.env["TRUNKLINE_URL"] = "";
    expect(new Trunkline().url).toBe("http://127.0.0.1:7788");
    process.env["TRUNKLINE_KEY"] = "bad\n";
    expect(() => new Trunkline()).toThrow(/^key: /);
    process.env = before;
  });

  test("it names the version of its package", () => {
    const manifest = readFileSync(new URL("../../client/package.json", import.meta.url), "utf8");
    expect(manifest).toContain(`"version": "${VERSION}"`);
  });
});

describe("a request", () => {
  const call = create(CallSchema, { id: "r1/1", state: CallState.QUEUED });

  test("is sent again after a cut", async () => {
    let tries = 0;
    const { peer, client } = await connected({
      calls: {
        getCall: () => {
          tries++;
          if (tries === 1) peer.cut();
          if (tries === 2) throw new ConnectError("away", Code.Unavailable);
          return { call };
        },
      },
    });
    await using _ = peer;
    expect(await client.calls.get("r1/1")).toMatchObject({ id: "r1/1", state: "queued" });
    expect(tries).toBe(3);
    await client.close();
  });

  test("many that share a signal, and workers too, make Node warn of no leak, and it ends them all", async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on("warning", onWarning);
    const { peer, client } = await connected({ calls: { getCall: () => new Promise(() => undefined) } });
    await using _ = peer;
    const abort = new AbortController();
    const { signal } = abort;
    const requests = Array.from({ length: 20 }, () => client.calls.get("r1/1", { signal }));
    const workers = Array.from({ length: 20 }, () => client.worker({ tools: { echo: () => 1 }, signal }));
    const ended = expect(Promise.allSettled(requests)).resolves.toEqual(
      requests.map(() => ({ status: "rejected", reason: new Error("enough") })),
    );
    await new Promise(setImmediate);
    abort.abort(new Error("enough"));
    await ended;
    for (const worker of workers) expect(worker.status).toBe("draining");
    await Promise.all(workers.map((worker) => worker.stop({ timeout: "1ms" })));
    await client.close();
    process.off("warning", onWarning);
    expect(warnings).toEqual([]);
  });

  test("is not sent again when the server has refused it", async () => {
    let tries = 0;
    const { peer, client } = await connected({
      calls: {
        getCall: () => {
          tries++;
          const value = create(ProblemSchema, { code: 5, reason: Reason.NOT_FOUND, message: "no such call" });
          throw new ConnectError("x", Code.NotFound, undefined, [{ desc: ProblemSchema, value }]);
        },
      },
    });
    await using _ = peer;
    await expect(client.calls.get("r1/1")).rejects.toMatchObject({
      reason: "NOT_FOUND",
      message: "no such call",
    });
    expect(tries).toBe(1);
    await client.close();
  });

  test("gives up after its bound and says whom it could not reach", async () => {
    const client = new Trunkline({ url: "http://127.0.0.1:1", retryFor: "300ms" });
    await expect(client.runs.create({ namespace: "u" })).rejects.toMatchObject({
      reason: "UNAVAILABLE",
      message: expect.stringContaining("http://127.0.0.1:1"),
    });
  });
});

describe("calls.settle", () => {
  const settling = async (attempts: number[], problems: (Reason | undefined)[] = []) => {
    const items: SettleItem[] = [];
    const made = await connected({
      calls: {
        getCall: () => ({ call: create(CallSchema, { id: "r1/1", attempt: attempts.shift()! }) }),
        settleCalls: (request) => {
          items.push(...request.items);
          const reason = problems.shift();
          if (reason === Reason.UNAVAILABLE) throw new ConnectError("away", Code.Unavailable);
          const problem = reason && create(ProblemSchema, { reason, message: Reason[reason] });
          return { results: [{ callId: "r1/1", state: CallState.SUCCEEDED, ...(problem && { problem }) }] };
        },
      },
    });
    return { ...made, items };
  };

  test("fills in the attempt once, so that a resend cannot hit the next one", async () => {
    const { peer, client, items } = await settling([2, 3], [Reason.UNAVAILABLE, Reason.STALE_ATTEMPT]);
    await using _ = peer;
    const settled = client.calls.settle("r1/1", { type: "tool.result", result: { ok: true } });
    await expect(settled).rejects.toMatchObject({ reason: "STALE_ATTEMPT" });
    expect(items.map(({ attempt }) => attempt)).toEqual([2, 2]);
    expect(items[0]).toMatchObject({
      call: { callId: "r1/1" },
      settlement: { outcome: { case: "resultJson", value: '{"ok":true}' } },
    });
    await client.close();
  });

  test("looks again when the call was claimed between the look and the send", async () => {
    const { peer, client, items } = await settling([0, 1], [Reason.STALE_ATTEMPT]);
    await using _ = peer;
    expect(await client.calls.settle("r1/1", { type: "tool.result" })).toBe("succeeded");
    expect(items.map(({ attempt }) => attempt)).toEqual([0, 1]);
    expect(items[1]?.settlement?.outcome).toMatchObject({ value: "null" });
    await client.close();
  });

  test("keeps to the attempt that was given", async () => {
    const { peer, client, items } = await settling([], [Reason.STALE_ATTEMPT]);
    await using _ = peer;
    const error = { message: "no", data: { code: 1 } };
    const settled = client.calls.settle(
      { run: "r1", key: "k" },
      { type: "tool.error", error, retryable: true, attempt: 7 },
    );
    await expect(settled).rejects.toMatchObject({ reason: "STALE_ATTEMPT" });
    expect(items).toMatchObject([
      {
        attempt: 7,
        call: { callId: "", runId: "r1", key: "k" },
        settlement: { outcome: { value: { message: "no", dataJson: '{"code":1}', retryable: true } } },
      },
    ]);
    await client.close();
  });

  test("is sent again when the server says that it cannot take it now", async () => {
    const { peer, client, items } = await settling([1], [Reason.OVERLOADED]);
    await using _ = peer;
    expect(await client.calls.settle("r1/1", { type: "tool.result" })).toBe("succeeded");
    expect(items).toHaveLength(2);
    await client.close();
  });

  test("refuses a type that does not exist", async () => {
    const client = new Trunkline({ url: "http://127.0.0.1:1" });
    await expect(client.calls.settle("r1/1", { type: "tool.done" } as never)).rejects.toThrow(
      /^type: "tool.done"/,
    );
  });
});

describe("an id that is missing or is no text is refused by its name, and nothing is sent", () => {
  const result = { type: "tool.result" } as const;
  const bad = undefined as never;
  test.each<[field: string, ask: (client: Trunkline) => Promise<unknown>]>([
    ["call", ({ calls }) => calls.settle(bad, result)],
    ["call", ({ calls }) => calls.settle(null as never, result)],
    ["call", ({ calls }) => calls.settle(7 as never, result)],
    ["call", ({ calls }) => calls.settle("", result)],
    ["call.run", ({ calls }) => calls.settle({ key: "k" } as never, result)],
    ["call.key", ({ calls }) => calls.settle({ run: "r" } as never, result)],
    ["settlement", ({ calls }) => calls.settle("r/1", bad)],
    ["call", ({ calls }) => calls.get(bad)],
    ["call", ({ calls }) => calls.cancel(bad)],
    ["call", ({ calls }) => calls.issueToken(bad)],
    ["token", ({ tasks }) => tasks.complete(bad, 1)],
    ["token", ({ tasks }) => tasks.fail(bad, { message: "no" })],
    ["token", ({ tasks }) => tasks.get(bad)],
    ["run", ({ runs }) => runs.get(bad)],
    ["run", ({ runs }) => runs.end(bad)],
    ["run", async ({ runs }) => runs.open(bad)],
    ["id", ({ toolsets }) => toolsets.get(bad)],
    ["id", ({ toolsets }) => toolsets.put(bad, {})],
    ["id", ({ toolsets }) => toolsets.delete(bad)],
    ["tool", ({ runs }) => runs.open("r").call(bad)],
  ])("%s of %s", async (field, ask) => {
    const client = new Trunkline({ url: "http://127.0.0.1:1", retryFor: "1ms" });
    const error = await ask(client).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "INVALID_FIELD", metadata: { field } });
    expect(String(error)).toMatch(new RegExp(`TrunklineError: ${field}: .*allowed is`));
  });
});

describe("lists, runs, tasks and toolsets", () => {
  test("a list is read page by page, or all of it", async () => {
    const requests: ListCallsRequest[] = [];
    const { peer, client } = await connected({
      calls: {
        listCalls: (request) => {
          requests.push(request);
          const number = Number(request.pageToken || "1");
          const calls = [create(CallSchema, { id: `r1/${number}`, inputJson: "[1]" })];
          return { calls, nextPageToken: number < 3 ? String(number + 1) : "" };
        },
      },
    });
    await using _ = peer;
    const filter = { state: ["queued", "failed"], tool: "t", namespace: "n", labels: { a: "b" } } as const;
    const page = await client.calls.list({ ...filter, payloads: true });
    expect(page.items).toMatchObject([{ id: "r1/1", input: [1], inputJson: "[1]" }]);
    expect(page.nextPageToken).toBe("2");
    const ids: string[] = [];
    for await (const { id } of page) ids.push(id);
    expect(ids).toEqual(["r1/1", "r1/2", "r1/3"]);
    expect(requests[2]).toMatchObject({
      states: [CallState.QUEUED, CallState.FAILED],
      tool: "t",
      namespace: "n",
      labels: { a: "b" },
      payloads: true,
      pageToken: "3",
    });
    await client.close();
  });

  test("a run is made with a key of its own, so that sending again makes no second one", async () => {
    const specs: RunSpec[] = [];
    const { peer, client } = await connected({
      runs: {
        createRun: ({ spec }) => {
          specs.push(spec!);
          if (specs.length === 1) throw new ConnectError("away", Code.Unavailable);
          return {
            run: create(RunSchema, { id: "r9", namespace: "u", state: RunState.ACTIVE }),
            created: true,
          };
        },
      },
    });
    await using _ = peer;
    const run = await client.runs.create({ namespace: "u", toolset: "shop", labels: { a: "b" }, ttl: "3d" });
    expect(run.id).toBe("r9");
    expect(run.info).toMatchObject({ namespace: "u", state: "active", toolset: undefined });
    expect(specs[1]).toMatchObject({ toolset: "shop", labels: { a: "b" }, ttl: { seconds: 259_200n } });
    expect(specs[1]!.key).not.toBe("");
    expect(specs[1]!.key).toBe(specs[0]!.key);
    await client.close();
  });

  test("a task is completed and failed with nothing but its token", async () => {
    const done: CompleteTaskRequest[] = [];
    const expiresAt = new Date(1_900_000_000_000);
    const { peer, client } = await connected({
      tasks: {
        completeTask: (request) => {
          done.push(request);
          return { callId: "r1/1" };
        },
        failTask: ({ failure }) => {
          expect(failure).toMatchObject({ message: "no", dataJson: "[1]", retryable: false });
          return { callId: "r1/1", state: CallState.FAILED };
        },
        getTask: () => ({
          callId: "r1/1",
          tool: "ask",
          inputJson: "{}",
          expiresAt: timestampFromDate(expiresAt),
        }),
      },
    });
    await using _ = peer;
    expect(await client.tasks.complete("t", rawJson("1.0"))).toEqual({ callId: "r1/1" });
    expect(done).toMatchObject([{ token: "t", resultJson: "1.0" }]);
    expect(await client.tasks.fail("t", { message: "no", data: [1] })).toEqual({
      callId: "r1/1",
      state: "failed",
    });
    expect(await client.tasks.get("t")).toMatchObject({ tool: "ask", input: {}, expiresAt });
    await expect(client.tasks.complete("t", undefined)).rejects.toMatchObject({ reason: "INVALID_JSON" });
    await expect(client.tasks.fail("t", { message: "m", data: 1n })).rejects.toMatchObject({
      reason: "INVALID_JSON",
    });
    await client.close();
  });

  test("a toolset is put and got as it was declared", async () => {
    let put: PutToolsetRequest | undefined;
    let deletions = 0;
    const { peer, client } = await connected({
      toolsets: {
        putToolset: (request) => {
          put = request;
          return { toolset: { id: request.id, version: 2 }, changed: true };
        },
        getToolset: ({ id }) => ({ toolset: create(ToolsetSchema, { id, version: 2, tools: put!.tools }) }),
        deleteToolset: () => {
          deletions++;
          if (deletions === 1) throw new ConnectError("away", Code.Unavailable);
          throw new ConnectError("gone", Code.NotFound);
        },
      },
    });
    await using _ = peer;
    const tools = {
      "crm.find": {
        description: "Finds",
        input: { type: "object" },
        output: true,
        policy: { mode: "at_most_once", backoff: { initial: "2s" }, attemptTimeout: "1h30m" },
        executor: "client",
      },
    } as const;
    expect(await client.toolsets.put("shop", tools)).toMatchObject({ id: "shop", version: 2, changed: true });
    expect(await client.toolsets.get("shop")).toMatchObject({ id: "shop", version: 2, tools });
    // The answer to the first deletion was lost.
    await client.toolsets.delete("shop");
    await expect(client.toolsets.put("x", { a: { descriptoin: "" } as never })).rejects.toThrow(
      /"descriptoin"/,
    );
    await client.close();
  });

  test.each([
    ["tools[1].input_schema_json", 'tools["b"].input'],
    ["tools[1].policy.heartbeat_timeout", 'tools["b"].policy.heartbeatTimeout'],
    ["tools[1].policy.backoff_max", 'tools["b"].policy.backoff.max'],
    ["tools", "tools"],
    ["id", "id"],
  ])("a server's refusal of %s names the declaration as it was given: %s", async (field, ours) => {
    const { peer, client } = await connected({
      toolsets: {
        putToolset: () => {
          const problem = { code: 3, reason: Reason.INVALID_FIELD, message: `${field} is wrong` };
          const value = create(ProblemSchema, { ...problem, metadata: { field } });
          throw new ConnectError("x", Code.InvalidArgument, undefined, [{ desc: ProblemSchema, value }]);
        },
      },
    });
    await using _ = peer;
    const tool = { description: "" };
    await expect(client.toolsets.put("x", { a: tool, b: tool })).rejects.toMatchObject({
      reason: "INVALID_FIELD",
      code: "INVALID_ARGUMENT",
      message: `${ours} is wrong`,
      metadata: { field: ours },
    });
    await client.close();
  });

  test("a failed call says so in every field", async () => {
    const { peer, client } = await connected({
      calls: {
        getCall: () => ({
          call: create(CallSchema, {
            id: "r1/1",
            state: CallState.FAILED,
            failure: { kind: FailureKind.ATTEMPT_TIMEOUT, message: "slow", outcomeUnknown: true },
            attempts: [{ number: 1, worker: "w", failure: { message: "first" } }],
          }),
        }),
      },
    });
    await using _ = peer;
    expect(await client.calls.get({ run: "r1", key: "k" })).toMatchObject({
      state: "failed",
      error: { kind: "attempt_timeout", message: "slow", outcomeUnknown: true },
      attempts: [{ number: 1, worker: "w", error: { message: "first" } }],
      result: undefined,
    });
    await client.close();
  });
});
