import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { create } from "@bufbuild/protobuf";
import { RunSchema, RunState } from "@trunkline/proto/run";
import type { ToolDeclarations } from "@trunkline/sdk";
import { Peer } from "../client/support/peer.js";
import { useStack } from "../support/stack.js";
import { until, within } from "../support/until.js";
import type { WorkerProcess } from "../support/worker-process.js";
import { RunningCommand, trunkline, type CommandOptions, type CommandResult } from "./command.js";

const stack = useStack();
let worker: WorkerProcess;

beforeAll(async () => {
  worker = await stack.worker({ name: "steps" });
});

afterAll(async () => {
  await worker.kill();
});

const env = (): NodeJS.ProcessEnv => ({ TRUNKLINE_URL: stack.server.url });

const cli = (args: readonly string[], options: CommandOptions = {}): Promise<CommandResult> =>
  trunkline(args, { ...options, env: env() });

/** Runs a command that has to work; gives what it printed, without the line's end. */
const done = async (args: readonly string[], options: CommandOptions = {}): Promise<string> => {
  const { status, stdout, stderr } = await cli(args, options);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return stdout.trimEnd();
};

const documents = (text: string): unknown[] => text.split("\n").map((line): unknown => JSON.parse(line));

/** The input of a call whose handler does these steps. */
const steps = (...all: readonly object[]): string => JSON.stringify(all);

const TOOLS: ToolDeclarations = {
  ask: { description: "asks a person", executor: "client" },
  steps: { description: "does what it is told", policy: { attemptTimeout: "30s" } },
};

describe("call", () => {
  test("prints the result as it was answered, digit for digit", async () => {
    const answer = '{"a": 9007199254740993, "b": 1.50, "c": 12345678901234567890e2}';
    expect(await done(["call", "steps", steps({ returnRaw: answer })])).toBe(answer);
  });

  test("passes its input on digit for digit, from the command line and from standard input", async () => {
    const input = '[{"return": 1}, {"a":   9007199254740993}]';
    for (const [argument, options] of [
      [input, {}],
      ["-", { input }],
    ] as const) {
      const { id } = JSON.parse(await done(["call", "steps", argument, "--json"], options));
      expect(await done(["calls", "show", id])).toContain(input);
    }
  });

  test("without --run makes a run with what was asked for, and ends it", async () => {
    const args = ["--namespace", "user-1", "--label", "a=b", "--label", "c=d=e", "--json"];
    const outcome = JSON.parse(await done(["call", "steps", steps({ return: 1 }), ...args]));
    expect(outcome).toMatchObject({ tool: "steps", state: "succeeded", attempt: 1, result: 1, error: null });
    const [runId = ""] = String(outcome.id).split("/");
    expect(JSON.parse(await done(["run", "show", runId, "--json"]))).toMatchObject({
      id: runId,
      state: "ended",
      namespace: "user-1",
      labels: { a: "b", c: "d=e" },
      calls: 1,
      openCalls: 0,
    });
  });

  test("in a run that is there leaves it active, and its key names the same call again", async () => {
    const run = await done(["run", "create"]);
    const call = [
      "call",
      "steps",
      steps({ return: "once" }),
      "--run",
      run,
      "--key",
      "k",
      "--turn",
      "3",
      "--json",
    ];
    const [first, second] = [JSON.parse(await done(call)), JSON.parse(await done(call))];
    expect(first).toMatchObject({ id: `${run}/1`, key: "k", turn: 3, result: "once" });
    expect(second).toEqual(first);
    expect(await done(["run", "show", run])).toContain("active");
  });

  test("a failure of the tool is one line on standard error and status 1, and cannot act on a terminal", async () => {
    const { status, stdout, stderr } = await cli([
      "call",
      "steps",
      steps({ throw: "no \u001b[31msuch\nthing", data: 1 }),
    ]);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toMatch(
      /^error: steps failed: no \\x1b\[31msuch\\nthing \(tool; call [0-9a-f-]{36}\/1\)\n$/,
    );
  });

  test("a failure of the tool is a document for machines, with its data", async () => {
    const { status, stdout, stderr } = await cli([
      "call",
      "steps",
      steps({ throw: "no", data: { a: 1.5 } }),
      "--json",
    ]);
    expect({ status, stderr }).toEqual({ status: 1, stderr: "" });
    expect(JSON.parse(stdout)).toMatchObject({
      state: "failed",
      result: null,
      error: { kind: "tool", message: "no", data: { a: 1.5 }, retryable: false, outcomeUnknown: false },
    });
  });

  test("a timeout ends the call", async () => {
    const { status, stderr } = await cli(["call", "nobody.serves.it", "--timeout", "300ms"]);
    expect(status).toBe(1);
    expect(stderr).toContain("no worker for the tool nobody.serves.it");
    expect(stderr).toMatch(/error: nobody\.serves\.it failed: .*total_timeout/);
  });

  test("Ctrl-C cancels the call, ends its run and fails", async () => {
    await using call = new RunningCommand(["call", "steps", steps({ wait: "never" })], { env: env() });
    const { callId } = await worker.told("waiting");
    call.signal("SIGINT");
    expect(await call.ended).toEqual({ status: 1, signal: null });
    expect(call.stderr).toBe(`error: interrupted; call ${callId} is canceled\n`);
    await worker.told("aborted", callId);
    expect(await done(["calls", "show", callId])).toMatch(/^state +canceled$/m);
    expect(await done(["run", "show", callId.split("/")[0]!])).toMatch(/^state +ended$/m);
    worker.go("never");
  });

  test("Ctrl-C ends it too while the server has not said that it has the call", async () => {
    const made = create(RunSchema, { id: "01990000-0000-7000-8000-000000000000", state: RunState.ACTIVE });
    await using peer = await Peer.start({
      runs: { createRun: () => ({ run: made }), endRun: () => ({ run: made }) },
    });
    await using call = new RunningCommand(["call", "steps"], { env: { TRUNKLINE_URL: peer.url } });
    // It is never welcomed, so the open waits.
    await peer.drive();
    call.signal("SIGINT");
    expect(await within("its end", call.ended, 5_000)).toEqual({ status: 1, signal: null });
    expect(call.stderr).toBe("error: interrupted before the server said that it has the call\n");
  });

  test("what the server refuses names what is allowed, and is no result", async () => {
    const { status, stdout, stderr } = await cli(["call", "bad name"]);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toMatch(/^error: .*"bad name".*\n$/);
  });
});

describe("toolset", () => {
  test("put makes versions of what changed, and list and show show them", async () => {
    const input = JSON.stringify({ id: "crm", tools: TOOLS });
    expect(await done(["toolset", "put", "-"], { input })).toBe("crm version 1");
    expect(await done(["toolset", "put", "-"], { input })).toBe("crm version 1 (unchanged)");
    expect(await done(["toolset", "list"])).toMatch(/^ID +VERSION +TOOLS +MADE\ncrm +1 +\S+ \S+ +\d{4}-/);
    expect(await done(["toolset", "show", "crm"])).toMatch(/\nask +client +asks a person/);

    const shown = await done(["toolset", "show", "crm", "--json"]);
    expect(await done(["toolset", "put", "-"], { input: shown })).toBe("crm version 1 (unchanged)");
    const more = JSON.stringify({ tools: { ...TOOLS, more: { description: "" } } });
    expect(await done(["toolset", "put", "-", "--id", "crm", "--json"], { input: more })).toContain(
      '"version":2',
    );
    expect(await done(["toolset", "show", "crm", "--at", "1", "--json"])).toBe(shown);
  });

  test("a file without an id wants --id, and one with a misspelt field says which", async () => {
    const nameless = await cli(["toolset", "put", "-"], { input: '{"tools":{"a":{"description":""}}}' });
    expect(nameless).toMatchObject({
      status: 2,
      stderr: 'error: standard input: has no "id"; write one there, or give --id\n',
    });
    const misspelt = await cli(["toolset", "put", "-"], {
      input: '{"id":"x","tools":{"a":{"description":"","imput":{}}}}',
    });
    expect(misspelt.status).toBe(2);
    expect(misspelt.stderr).toMatch(/^error: tools\["a"\]: "imput"; allowed are .*input.*\n$/);
  });

  test("input that violates the tool's schema is refused and opens no call", async () => {
    const tools = { strict: { description: "", input: { type: "object", required: ["email"] } } };
    await done(["toolset", "put", "-"], { input: JSON.stringify({ id: "strict", tools }) });
    const { status, stderr } = await cli(["call", "strict", "{}", "--toolset", "strict"]);
    expect(status).toBe(1);
    expect(stderr).toMatch(/^error: .*email.*\n$/);
    expect((await cli(["calls", "list", "--tool", "strict"])).stdout).toBe("");
  });
});

describe("lists", () => {
  test("calls are found by run, state, tool, namespace and label, newest first, as many as asked for", async () => {
    const made = await stack.client.runs.create({ namespace: "lister", labels: { who: "lister" } });
    const run = made.id;
    for (const value of [1, 2, 3]) await made.call("steps", [{ return: value }]);
    await (await made.open("steps", [{ throw: "no" }])).outcome();

    const ids = async (...filter: string[]): Promise<unknown[]> =>
      documents(await done(["calls", "list", "--json", ...filter])).map(
        (call) => (call as { id: unknown }).id,
      );
    const all = [4, 3, 2, 1].map((seq) => `${run}/${seq}`);
    expect(await ids("--run", run)).toEqual(all);
    expect(await ids("--namespace", "lister")).toEqual(all);
    expect(await ids("--label", "who=lister", "--tool", "steps")).toEqual(all);
    expect(await ids("--run", run, "--state", "failed", "--state", "canceled")).toEqual([`${run}/4`]);

    const limited = await cli(["calls", "list", "--run", run, "--limit", "2"]);
    expect(limited.stdout).toMatch(
      new RegExp(`^ID +TOOL .*\n${run}/4 .*failed.*no\n${run}/3 .*succeeded.*\n$`),
    );
    expect(limited.stderr).toBe("these are the first 2, there are more; --limit N shows up to N\n");
    expect(await done(["run", "list", "--namespace", "lister"])).toMatch(
      new RegExp(`\n${run} +active +lister .*who=lister$`),
    );
  });

  test("an empty list prints nothing on standard output and says so on standard error", async () => {
    expect(await cli(["calls", "list", "--tool", "nobody.knows"])).toEqual({
      status: 0,
      stdout: "",
      stderr: "no calls\n",
    });
    expect(await cli(["calls", "list", "--tool", "nobody.knows", "--json"])).toEqual({
      status: 0,
      stdout: "",
      stderr: "",
    });
  });

  test("a reader that stops reading, such as `head`, is no error", async () => {
    const list = new RunningCommand(["calls", "list", "--json", "--payloads"], { env: env() });
    await list.stopReading();
    expect(await list.ended).toEqual({ status: 0, signal: null });
    expect(list.stderr).toBe("");
  });
});

describe("answering from outside", () => {
  const ask = async (): Promise<{ run: string; call: RunningCommand }> => {
    await stack.client.toolsets.put("people", TOOLS);
    const { id: run } = await stack.client.runs.create({ toolset: "people" });
    const call = new RunningCommand(["call", "ask", '{"q":1}', "--run", run], { env: env() });
    await until("the call is there", async () => (await stack.client.calls.list({ run })).items.length);
    return { run, call };
  };

  test("settle gives a client call its result, digit for digit; the same again is fine, another is refused", async () => {
    const { run, call } = await ask();
    await using _ = call;
    const result = '{"x": 12345678901234567890}';
    expect(await done(["settle", `${run}/1`, "--result", result])).toBe(`${run}/1 succeeded`);
    expect(await call.ended).toEqual({ status: 0, signal: null });
    expect(call.stdout).toBe(`${result}\n`);
    expect(await done(["settle", `${run}/1`, "--result", result, "--json"])).toBe(
      `{"id":"${run}/1","state":"succeeded"}`,
    );
    expect(await cli(["settle", `${run}/1`, "--error", "no"])).toMatchObject({
      status: 1,
      stderr: `error: call ${run}/1 has ended: succeeded\n`,
    });
  });

  test("settle fails a call, and only the attempt that is named", async () => {
    const { run, call } = await ask();
    await using _ = call;
    const stale = await cli(["settle", `${run}/1`, "--error", "no", "--attempt", "7"]);
    expect(stale.status).toBe(1);
    expect(await done(["settle", `${run}/1`, "--error", "no", "--data", "[1]", "--attempt", "1"])).toBe(
      `${run}/1 failed`,
    );
    expect(await call.ended).toEqual({ status: 1, signal: null });
    expect(call.stderr).toContain("error: ask failed: no (tool; call");
  });

  test("calls cancel and run end cancel what is open", async () => {
    const first = await ask();
    await using _ = first.call;
    expect(await done(["calls", "cancel", `${first.run}/1`])).toBe(`${first.run}/1 canceled`);
    expect((await first.call.ended).status).toBe(1);
    const second = await ask();
    await using __ = second.call;
    expect(await done(["run", "end", second.run])).toBe(`${second.run} ended`);
    expect((await second.call.ended).status).toBe(1);
    const late = await cli(["call", "ask", "--run", second.run]);
    expect(late).toMatchObject({
      status: 1,
      stderr: `error: run ${second.run} has ended; it takes no new calls\n`,
    });
  });

  test("complete and fail answer a deferred call by its token, which needs no place on the command line", async () => {
    const deferring = steps({ token: true }, { defer: {} });
    for (const [command, status, stdout] of [
      [["complete", "-", '{"ok": 1.0}'], 0, '{"ok": 1.0}\n'],
      [["fail", "-", "declined", "--data", "{}"], 1, ""],
    ] as const) {
      await using call = new RunningCommand(["call", "steps", deferring], { env: env() });
      const id = await until("the call is deferred", async () => {
        const { items } = await stack.client.calls.list({ state: "deferred", tool: "steps" });
        return items[0]?.id;
      });
      const { token } = await worker.told("deferred", id);
      const answered = await done(command, { input: `${token}\n` });
      expect(answered).toBe(`${id} ${status === 0 ? "succeeded" : "failed"}`);
      expect(await call.ended).toEqual({ status, signal: null });
      expect(call.stdout).toBe(stdout);
    }
  });

  test("a token that fits nothing is refused and not repeated", async () => {
    const { status, stderr } = await cli(["complete", "a-secret-of-somebody"]);
    expect(status).toBe(1);
    expect(stderr).not.toContain("a-secret-of-somebody");
  });
});
