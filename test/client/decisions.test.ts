import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  HostToolError,
  TurnTimeoutError,
  type Agent,
  type Decide,
  type Decisions,
  type DecisionsOptions,
  type Run,
  type ToolExecuteTrigger,
  type Trunkline,
} from "../../client/src/index.js";
import { gate } from "./support/claim.js";
import { Queue } from "./support/queue.js";
import { useBackend } from "./support/server.js";

const backend = useBackend();

const AGENT: Agent = {
  model: "small-1",
  tools: [
    {
      name: "render_report",
      description: "Renders a report. This takes a while.",
      input: { type: "object", properties: { topic: { type: "string" } }, required: ["topic"] },
    },
    { name: "add", description: "Adds two numbers." },
  ],
};

let client: Trunkline;
let errors: unknown[];
/** The calls of `render_report`, and all others that {@link leaveOpen} was asked about, in their order. */
let asked: Queue<ToolExecuteTrigger>;

beforeEach(() => {
  client = backend().client();
  errors = [];
  asked = new Queue();
});

afterEach(() => client.close());

const start = (options: DecisionsOptions, of: Trunkline = client): Decisions =>
  of.decisions({ onError: (error) => errors.push(error), ...options });

/** Leaves all calls open but those of `add`, whose handler is asked. */
const leaveOpen: Decide = ({ trigger, proposed }) => {
  if (trigger.type === "session.start") return { agent: AGENT };
  if (trigger.name === "add") return proposed;
  asked.put(trigger);
  return {};
};

const ADD = { add: (input: unknown) => (input as number[]).reduce((sum, each) => sum + each, 0) };

/** A run in which any tool may be called. */
async function anyRun(): Promise<Run> {
  return client.runs.create();
}

const deferred = (callId: string): Promise<void> =>
  expect.poll(async () => (await client.calls.get(callId)).state, { interval: 5 }).toBe("deferred");

/** Settles over plain HTTP, as a program in any language does. */
async function post(runId: string, body: unknown): Promise<{ status: number; answer: unknown }> {
  const response = await fetch(`${backend().url}/api/machine/sessions/${runId}/calls/settle`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, answer: await response.json() };
}

describe("a tool that answers later", () => {
  test("keeps its turn open across restarts of worker and server, until its calls are settled by id (B04)", async () => {
    const first = backend().client();
    const decisions = start({ decide: leaveOpen, tools: ADD }, first);
    const { run, agent } = await client.sessions.start({ namespace: "ada", labels: { plan: "pro" } });
    expect(agent).toEqual(AGENT);
    const turn = run.turn(1);
    const [one, two] = await Promise.all([
      turn.open("render_report", { topic: "a" }, { key: "toolu_1" }),
      turn.open("render_report", { topic: "b" }, { key: "toolu_2" }),
    ]);
    const quick = await turn.open("add", [1, 2], { key: "toolu_3" });
    const triggers = [await asked.take(), await asked.take()];
    expect(triggers.find(({ id }) => id === one.id)).toMatchObject({
      ...{ type: "tool.execute", name: "render_report", runId: run.id, attempt: 1 },
      ...{
        namespace: "ada",
        labels: { plan: "pro" },
        input: { value: { topic: "a" }, json: '{"topic":"a"}' },
      },
    });
    await Promise.all([deferred(one.id), deferred(two.id)]);
    // What has ended first is there, and the turn is open.
    expect(await quick.outcome()).toMatchObject({ state: "succeeded", result: 3 });
    const settled = turn.settled();

    await decisions.stop();
    await first.close();
    await backend().restart();
    start({ decide: leaveOpen, tools: ADD });
    await expect(turn.settled({ timeout: "20ms" })).rejects.toBeInstanceOf(TurnTimeoutError);

    const url = "https://reports.example/42.pdf";
    expect(await post(run.id, { type: "tool.result", id: one.id, result: url })).toEqual({
      status: 200,
      answer: { callId: one.id, state: "CALL_STATE_SUCCEEDED" },
    });
    await expect(turn.settled({ timeout: "20ms" })).rejects.toMatchObject({ open: [{ callId: two.id }] });
    await client.calls.settle(two.id, { type: "tool.error", error: "no paper", retryable: false });
    expect(await settled).toMatchObject([
      { key: "toolu_1", state: "succeeded", result: url, attempt: 1 },
      { key: "toolu_2", state: "failed", error: { kind: "tool", message: "no paper" } },
      { key: "toolu_3", state: "succeeded" },
    ]);
    // Nobody was asked twice.
    expect(asked.drain()).toEqual([]);
    expect(errors).toEqual([]);
  });

  test("may be settled before its deferral is stored", async () => {
    const decisions = start({
      serve: ["hasty"],
      decide: async ({ trigger }) => {
        if (trigger.type === "session.start") return {};
        await client.calls.settle(trigger.id, { type: "tool.result", result: "done" });
        return {};
      },
    });
    const run = await anyRun();
    expect(await run.call("hasty")).toBe("done");
    await decisions.stop();
    expect(errors).toEqual([]);
  });

  test("is tried again when an attempt takes too long, and the answer to the old one is refused", async () => {
    const retried = (name: string, secs: number) => ({
      ...{ name, description: "Takes long." },
      retry: { attempt_timeout_secs: secs, max_attempts: 2 },
    });
    const tools = [retried("slow", 0.6), retried("endless", 0.1)];
    start({
      decide: ({ trigger }) => {
        if (trigger.type === "session.start") return { agent: { model: "m", tools } };
        asked.put(trigger);
        return undefined;
      },
    });
    const { run } = await client.sessions.start();
    const policy = { backoff: { initial: "1ms" } } as const;
    const [answered, spent] = [
      await run.open("slow", null, { policy }),
      await run.open("endless", null, { policy }),
    ];
    const ofFirst = async (): Promise<ToolExecuteTrigger> => {
      for (;;) {
        const trigger = await asked.take();
        if (trigger.id === answered.id) return trigger;
      }
    };
    expect((await ofFirst()).attempt).toBe(1);
    const second = await ofFirst();
    expect(second.attempt).toBe(2);
    const { id } = second;
    await expect(
      client.calls.settle(id, { type: "tool.result", result: "old", attempt: 1 }),
    ).rejects.toMatchObject({ reason: "STALE_ATTEMPT" });
    expect(await post(run.id, { type: "tool.result", id, result: "old", attempt: 1 })).toMatchObject({
      status: 409,
      answer: { problem: { reason: "REASON_STALE_ATTEMPT" } },
    });
    expect((await post(run.id, { type: "tool.result", id, result: "new", attempt: 2 })).status).toBe(200);
    expect(await answered.outcome()).toMatchObject({ result: "new", attempt: 2 });
    // The other one has used its attempts up.
    expect(await spent.outcome()).toMatchObject({
      ...{ state: "failed", attempt: 2, error: { kind: "attempt_timeout" } },
    });
    expect(errors).toEqual([]);
  });

  test("fails when the call takes too long", async () => {
    const tool = { name: "endless", description: "Never ends.", retry: { total_timeout_secs: 0.1 } };
    start({
      decide: ({ trigger }) =>
        trigger.type === "session.start" ? { agent: { model: "m", tools: [tool] } } : [],
    });
    const { run } = await client.sessions.start();
    const call = await run.open("endless");
    expect(await call.outcome()).toMatchObject({ state: "failed", error: { kind: "total_timeout" } });
  });
});

describe("what is decided about a call", () => {
  const table: [string, Decide, unknown][] = [
    ["a result", () => ({ type: "tool.result", result: { a: 1 } }), { result: { a: 1 } }],
    ["no result", () => ({ type: "tool.result" }), { result: null }],
    [
      "an event in a list",
      ({ trigger: { id = "", attempt } }) => [{ type: "tool.result", id, attempt, result: 1 }],
      { result: 1 },
    ],
    [
      "an error",
      () => ({ type: "tool.error", error: "sold out" }),
      { error: { kind: "tool", message: "sold out", retryable: false } },
    ],
    [
      "an error with data",
      () => ({ type: "tool.error", error: { message: "sold out", data: { left: 0 } } }),
      { error: { message: "sold out", data: { left: 0 } } },
    ],
    [
      "an error that may pass",
      ({ trigger: { attempt } }) =>
        attempt === 1 ? { type: "tool.error", error: "busy", retryable: true } : { type: "tool.result" },
      { state: "succeeded", attempt: 2 },
    ],
    ["what is proposed", ({ proposed }) => Promise.resolve(proposed), { result: 6 }],
    [
      "a HostToolError",
      () => {
        throw new HostToolError("no", { data: 1 });
      },
      { error: { kind: "tool", message: "no", data: 1 } },
    ],
  ];

  test.each(table)("%s ends it", async (_, decide, outcome) => {
    start({ tools: ADD, decide: (ask) => (ask.trigger.type === "session.start" ? {} : decide(ask)) });
    const run = await anyRun();
    const call = await run.open("add", [1, 2, 3], { policy: { backoff: { initial: "1ms" } } });
    expect(await call.outcome()).toMatchObject(outcome as object);
    expect(errors).toEqual([]);
  });

  const odd: [string, () => unknown, string][] = [
    ["another call's id", () => ({ type: "tool.result", id: "x/1" }), 'id: "x/1"; allowed is "'],
    ["another attempt", () => ({ type: "tool.result", attempt: 7 }), "attempt: 7; allowed is 1"],
    ["an unknown type", () => ({ type: "tool.done" }), 'it: type "tool.done"; allowed are tool.result,'],
    ["an unknown field", () => ({ answer: 1 }), "it: fields answer"],
    ["result and error", () => ({ type: "tool.result", result: 1, error: "e" }), 'tool.result: "error"'],
    ["an error without a word", () => ({ type: "tool.error" }), "error: undefined"],
    ["a number as an error", () => ({ type: "tool.error", error: { message: 3 } }), "error.message: number"],
    ["a text for a flag", () => ({ type: "tool.error", error: "e", retryable: "no" }), "retryable: string"],
    ["two answers", () => [{ type: "tool.result" }, { type: "tool.result" }], "it: 2 items"],
    ["a text", () => "done", "it: string is not an object"],
    ["an Error", () => new Error("lost"), "it: an object that is not plain"],
    ["an agent", () => ({ agent: AGENT }), "it: fields agent"],
    ["what JSON cannot carry", () => ({ type: "tool.result", result: { at: NaN } }), "result.at is NaN"],
  ];

  test("fails it clearly when it is odd, which onError hears of", async () => {
    const returns = new Map(odd.map(([name, decision]) => [name, decision]));
    const decide: Decide = ({ trigger }) => {
      if (trigger.type === "session.start") return {};
      // What comes from JavaScript may be anything.
      return returns.get(String(trigger.input.value))?.() as ReturnType<Decide>;
    };
    start({ decide, serve: ["any"] });
    const run = await anyRun();
    const calls = await Promise.all(odd.map(([name]) => run.open("any", name)));
    for (const [index, [name, , message]] of odd.entries()) {
      const { error } = (await calls[index]?.outcome()) ?? {};
      expect(error, name).toMatchObject({ kind: "invalid_answer", retryable: false });
      expect(error?.message, name).toContain(message);
    }
    expect(errors).toHaveLength(odd.length);
  });

  test("fails it when what is proposed is nothing", async () => {
    start({ decide: ({ proposed }) => proposed, serve: ["bare"] });
    const run = await anyRun();
    const message = "decide returned what is proposed, and bare has no handler in the worker's options";
    await expect(run.call("bare")).rejects.toMatchObject({ kind: "invalid_answer", message });
    await expect(client.sessions.start()).rejects.toMatchObject({ kind: "invalid_answer" });
    expect(errors).toHaveLength(2);
  });

  test("does not count once the call is canceled, which the trigger's signal tells", async () => {
    const [started, aborted] = [gate(), gate<unknown>()];
    start({
      serve: ["wait"],
      decide: ({ trigger: { type, signal } }) => {
        if (type === "session.start") return {};
        return new Promise((resolve) => {
          signal.addEventListener("abort", () => {
            aborted.open(signal.reason);
            resolve({ type: "tool.result" });
          });
          started.open();
        });
      },
    });
    const call = await (await anyRun()).open("wait");
    await started.promise;
    expect(await call.cancel()).toBe("canceled");
    expect(await aborted.promise).toMatchObject({ reason: "CLAIM_LOST" });
    expect(errors).toEqual([]);
  });
});

describe("the tools that are served", () => {
  test.each(["stream", "poll"] as const)(
    "by %s are those that decide names as the worker starts, and those of each agent that it gives since",
    async (transport) => {
      const finish = gate();
      await using own = backend().client({ transport });
      const decisions = start(
        {
          tools: { hold: () => finish.promise.then(() => "held") },
          decide: async ({ trigger, proposed }) => {
            if (trigger.type === "tool.execute") {
              return trigger.name === "hold" ? proposed : { type: "tool.result", result: trigger.name };
            }
            // Meanwhile a worker without streams asks for more calls, of the tools that it knows.
            for (let round = 0; round < 4; round++) await client.runs.list({ pageSize: 1 });
            const name = trigger.id === undefined ? "early" : String(trigger.input.value);
            const asking = { name: "ask_user", description: "Asks.", client: true };
            return { agent: { model: "m", tools: [{ name, description: "A tool." }, asking] } };
          },
        },
        own,
      );
      const run = await anyRun();
      const held = await run.open("hold");
      expect(await run.call("early")).toBe("early");
      for (const name of ["late", "later", "late"]) {
        const session = await client.sessions.start({ input: name });
        expect(await session.run.call(name)).toBe(name);
        await expect(session.run.call("early")).rejects.toMatchObject({ reason: "TOOL_UNKNOWN" });
      }
      expect(decisions.tools).toEqual(["session.start", "hold", "early", "late", "later"]);
      expect(decisions.status).toBe("connected");
      // It was not disturbed.
      finish.open();
      expect(await held.outcome()).toMatchObject({ result: "held", attempt: 1 });
      expect(errors).toEqual([]);
    },
  );

  test("are still served when decide fails as the worker starts", async () => {
    start({
      decide: ({ trigger, proposed }) => {
        if (trigger.id === undefined) throw new TypeError("no such user");
        return proposed;
      },
      agent: AGENT,
      tools: ADD,
    });
    const { run } = await client.sessions.start();
    expect(await run.call("add", [4, 5])).toBe(9);
    expect(errors).toEqual([new TypeError("no such user")]);
  });

  test.each<[string, object]>([
    ["decide: undefined; allowed is a function", { decide: undefined }],
    ["tools.add: number; allowed is a function", { tools: { add: 1 } }],
    ["tools: session.start; it is reserved", { serve: ["session.start"] }],
    ["serve: string; allowed are names of tools", { serve: "add" }],
    ["agent.tools: it is empty", { agent: { model: "m", tools: [] } }],
    ['options: "toolset"', { toolset: "t" }],
  ])("%s is said at once", (message, options) => {
    expect(() => start({ decide: leaveOpen, ...options })).toThrow(message);
  });
});

describe("a session", () => {
  /** Counts how often `decide` was asked for an agent, by the session's input. */
  const counting = (answer: (asked: number) => Agent = () => AGENT) => {
    const times = new Map<unknown, number>();
    const decide: Decide = ({ trigger, proposed }) => {
      if (trigger.type === "tool.execute") return proposed;
      if (trigger.id === undefined) return {};
      const before = times.get(trigger.input.value) ?? 0;
      times.set(trigger.input.value, before + 1);
      return { agent: answer(before) };
    };
    return { times, decide };
  };

  test("started again under its key is the same one, from any process, at once or later", async () => {
    const { times, decide } = counting((before) => ({ ...AGENT, model: `asked ${before} times before` }));
    start({ decide, tools: ADD });
    const other = backend().client();
    const options = { key: "k", namespace: "bo", labels: { a: "1" }, ttl: "1h", input: "same" };
    const clients = [client, other, client, other];
    const sessions = await Promise.all(clients.map(({ sessions: each }) => each.start(options)));
    sessions.push(await other.sessions.start(options));
    await other.close();
    expect(new Set(sessions.map(({ run }) => run.id)).size).toBe(1);
    expect(new Set(sessions.map(({ agent }) => agent.model))).toEqual(new Set(["asked 0 times before"]));
    expect(times).toEqual(new Map([["same", 1]]));
    expect(await client.runs.get(sessions[0]!.run.id)).toMatchObject({
      ...{ key: "k", namespace: "bo", labels: { a: "1" }, state: "active", toolsetVersion: 1 },
    });
    // That which asked for the agent has ended.
    const { items } = await client.runs.list({ namespace: "bo" });
    expect(items.map(({ key, state }) => [key, state])).toEqual([
      ["k", "active"],
      ["session.start:k", "ended"],
    ]);
    for (const changed of [{ input: "other" }, { labels: {} }, { ttl: "2h" }]) {
      const again = client.sessions.start({ ...options, ...changed });
      await expect(again).rejects.toMatchObject({ reason: "KEY_REUSED" });
    }
  });

  test("is found again after its harness has died at any point", async () => {
    const { times, decide } = counting();
    start({ decide, tools: ADD });
    const steps = Array.from({ length: 10 }, (_, step) => step);
    const ends = await Promise.all(
      steps.map(async (step) => {
        const key = `crash-${step}`;
        const doomed = backend().client();
        const first = doomed.sessions.start({ key, input: key }).then(
          ({ run }) => run.id,
          () => "died",
        );
        for (let turn = 0; turn < step * 16; turn++) await new Promise(setImmediate);
        await doomed.close();
        const { run, agent } = await client.sessions.start({ key, input: key });
        expect(agent).toEqual(AGENT);
        expect(await run.call("add", [step, 1])).toBe(step + 1);
        expect(times.get(key)).toBe(1);
        return [await first, run.id];
      }),
    );
    expect(new Set(ends.flat()).size).toBe(steps.length + 1);
    expect(errors).toEqual([]);
  });

  test("shares its toolset with all that have equal tools, whatever their order", async () => {
    const shuffled = [...AGENT.tools].reverse().map((tool) => {
      const entries = Object.entries(tool).reverse();
      return Object.fromEntries(entries) as unknown as Agent["tools"][number];
    });
    const { decide } = counting((before) => (before === 0 ? AGENT : { model: "other", tools: shuffled }));
    start({ decide });
    const [one, two] = [await client.sessions.start(), await client.sessions.start()];
    expect(two.agent.model).toBe("other");
    expect(two.run.info).toMatchObject({ toolset: one.run.info?.toolset, toolsetVersion: 1 });
    const { tools } = await client.toolsets.get(one.run.info?.toolset ?? "");
    expect(tools).toMatchObject({ render_report: { executor: "worker", input: { required: ["topic"] } } });
  });

  test("has client tools that no worker answers, and policies as its agent says", async () => {
    const agent: Agent = {
      model: "m",
      settings: { instructions: "Be brief." },
      tools: [
        { name: "ask_user", description: "Asks.", client: true, output: { type: "string" } },
        { name: "pay", description: "Pays.", policy: { mode: "at_most_once" } },
        {
          name: "try",
          description: "Tries.",
          retry: { max_attempts: 3, attempt_timeout_secs: 1.5, total_timeout_secs: 90 },
        },
      ],
    };
    const decisions = start({ decide: ({ proposed }) => proposed, agent });
    const session = await client.sessions.start();
    expect(session.agent).toEqual(agent);
    expect(decisions.tools).toEqual(["session.start", "pay", "try"]);
    const { tools } = await client.toolsets.get(session.run.info?.toolset ?? "");
    expect(tools["try"]?.policy).toEqual({
      maxAttempts: 3,
      attemptTimeout: "1s500ms",
      totalTimeout: "1m30s",
    });
    expect(tools["pay"]?.policy).toEqual({ mode: "at_most_once" });
    const call = await session.run.open("ask_user");
    expect(await call.status()).toMatchObject({ state: "deferred", executor: "client", attempt: 1 });
    await client.calls.settle(call.id, { type: "tool.result", result: "yes" });
    expect(await call.outcome()).toMatchObject({ result: "yes" });
  });

  test("may be left open by decide, and goes on when its start is settled", async () => {
    start({
      decide: ({ trigger }) => {
        if (trigger.id !== undefined) asked.put(trigger as unknown as ToolExecuteTrigger);
        return {};
      },
    });
    const key = "approved later";
    const abort = new AbortController();
    const waiting = client.sessions.start({ key, signal: abort.signal });
    const { id } = await asked.take();
    await deferred(id);
    abort.abort();
    await expect(waiting).rejects.toMatchObject({ name: "AbortError" });
    await client.calls.settle(id, { type: "tool.result", result: { agent: AGENT } });
    expect((await client.sessions.start({ key })).agent).toEqual(AGENT);
  });

  test("leaves no run behind when nobody can start it again", async () => {
    const abort = new AbortController();
    const namespace = "impatient";
    const waiting = client.sessions.start({ namespace, signal: abort.signal });
    await expect
      .poll(async () => (await client.calls.list({ namespace })).items.length, { interval: 5 })
      .toBe(1);
    abort.abort();
    await expect(waiting).rejects.toMatchObject({ name: "AbortError" });
    expect((await client.runs.list({ namespace })).items).toMatchObject([{ state: "ended" }]);
    // The next test's worker is not to find its call.
    expect((await client.calls.list({ namespace, state: "queued" })).items).toEqual([]);
  });

  test("may be refused, and then stays refused under its key", async () => {
    const { decide, times } = counting();
    start({
      decide: (ask) => {
        void decide(ask);
        return ask.trigger.id === undefined ? {} : { type: "tool.error", error: "no budget" };
      },
    });
    for (const _ of [1, 2]) {
      const started = client.sessions.start({ key: "poor", input: 1 });
      await expect(started).rejects.toMatchObject({ name: "ToolError", kind: "tool", message: "no budget" });
    }
    expect(times).toEqual(new Map([[1, 1]]));
  });

  test("is started by any worker that answers session.start, which has to name an agent", async () => {
    const answers = [{ agent: AGENT }, { agent: { model: "m" } }, {}, "sure"];
    client.worker({ tools: { "session.start": (input) => answers[Number(input)] } });
    expect((await client.sessions.start({ input: 0 })).agent).toEqual(AGENT);
    const refused = [1, 2, 3].map((input) =>
      client.sessions.start({ input }).catch((error: unknown) => error),
    );
    expect(await Promise.all(refused)).toMatchObject([
      { reason: "INVALID_FIELD", message: expect.stringContaining("agent.tools: undefined is not an array") },
      { message: expect.stringContaining("agent: undefined is not an object") },
      { message: expect.stringContaining("the answer to session.start: string is not an object") },
    ]);
  });

  const agents: [string, unknown][] = [
    ['agent: "models"', { models: [] }],
    ["agent.model: it is empty", { model: "", tools: [] }],
    ["agent.tools[0].name: undefined", { model: "m", tools: [{}] }],
    ['agent.tools[0].name: "a b"', { model: "m", tools: [{ name: "a b" }] }],
    ["it is reserved", { model: "m", tools: [{ name: "session.start", description: "" }] }],
    ["that no other tool has", { model: "m", tools: [AGENT.tools[1], AGENT.tools[1]] }],
    [
      "it has retry and policy",
      { model: "m", tools: [{ name: "a", description: "", retry: {}, policy: {} }] },
    ],
    [
      "retry.total_timeout_secs: 0; allowed are seconds, above 0",
      { model: "m", tools: [{ name: "a", description: "", retry: { total_timeout_secs: 0 } }] },
    ],
    ['retry: "timeout"', { model: "m", tools: [{ name: "a", description: "", retry: { timeout: 1 } }] }],
    [
      "retry.max_attempts: string is not a number",
      { model: "m", tools: [{ name: "a", description: "", retry: { max_attempts: "3" } }] },
    ],
    ["agent.tools[0].client: string", { model: "m", tools: [{ name: "a", description: "", client: "no" }] }],
    ["agent.tools[0].input is NaN", { model: "m", tools: [{ name: "a", description: "", input: NaN }] }],
  ];

  test("does not start with an agent that cannot be, and the worker says why", async () => {
    start({
      decide: ({ trigger }) =>
        trigger.id === undefined
          ? {}
          : ({ agent: agents[Number(trigger.input.value)]?.[1] } as unknown as ReturnType<Decide>),
    });
    const started = agents.map((_, input) =>
      client.sessions.start({ input }).catch((error: unknown) => error),
    );
    for (const [index, error] of (await Promise.all(started)).entries()) {
      const message = expect.stringContaining(agents[index]![0]);
      expect(error).toMatchObject({ name: "ToolError", kind: "invalid_answer", message });
    }
    expect(errors).toHaveLength(agents.length);
  });

  test.each<[string, object]>([
    ["key: 241 bytes; allowed are 1 to 240", { key: "x".repeat(241) }],
    ["key: 0 bytes", { key: "" }],
    ['options: "toolset"', { toolset: "t" }],
    ["signal: ", { signal: 1 }],
  ])("%s is said at once", async (message, options) => {
    await expect(client.sessions.start(options)).rejects.toMatchObject({
      message: expect.stringContaining(message),
    });
  });
});
