import { afterAll, describe, expect, test } from "vitest";
import { Trunkline } from "../../client/src/index.js";

const ID = "01990000-0000-7000-8000-000000000000";

/** Nobody listens there: what is refused here is refused before anything is sent. */
const client = new Trunkline({ url: "http://127.0.0.1:1", retryFor: "1ms", onWarning: () => undefined });

afterAll(() => client.close());

/** What JavaScript passes where a type is asked for. */
const any = (value: unknown): never => value as never;

const open = (options: unknown): Promise<unknown> => client.runs.open(ID).call("echo", {}, any(options));
const policy = (fields: unknown): Promise<unknown> => open({ policy: fields });
const settle = (settlement: unknown): Promise<unknown> => client.calls.settle(`${ID}/1`, any(settlement));
const put = (tool: unknown): Promise<unknown> => client.toolsets.put("t", { a: any(tool) });

const refused: readonly (readonly [string, string, () => Promise<unknown>])[] = [
  ["a turn with a fraction", "turn", () => open({ turn: 1.5 })],
  ["a turn that is text", "turn", () => open({ turn: "1" })],
  ["a turn above what can be stored", "turn", () => open({ turn: 2 ** 31 })],
  ["a turn's own number below zero", "turn", async () => client.runs.open(ID).turn(-1)],
  ["a priority with a fraction", "priority", () => open({ priority: 1.5 })],
  ["a priority that is text", "priority", () => open({ priority: "high" })],
  ["a key that is a number", "key", () => open({ key: 5 })],
  ["a key that is empty, as some models give it", "key", () => open({ key: "" })],
  ["a run's key that is empty", "key", () => client.runs.create({ key: "" })],
  ["a traceparent that is a number", "traceparent", () => open({ traceparent: 5 })],
  ["a signal that is none", "signal", () => open({ signal: "x" })],
  ["a misspelt option", "options", () => open({ prority: 5 })],
  ["options that are text", "options", () => open("k")],
  ["options that are null", "options", () => open(null)],
  ["a tool that is no text", "tool", () => client.runs.open(ID).call(any(undefined))],
  ["a number of attempts with a fraction", "policy.maxAttempts", () => policy({ maxAttempts: 1.5 })],
  ["a negative number of attempts", "policy.maxAttempts", () => policy({ maxAttempts: -1 })],
  ["a misspelt backoff", "policy.backoff", () => policy({ backoff: { intial: "1s" } })],
  ["a backoff that is a duration", "policy.backoff", () => policy({ backoff: "1s" })],
  ["a factor that is text", "policy.backoff.factor", () => policy({ backoff: { factor: "2" } })],
  ["a policy that is null", "policy", () => policy(null)],
  ["labels that are a list", "labels", () => client.runs.create({ labels: any(["a"]) })],
  ["a label that is a number", 'labels["a"]', () => client.runs.create({ labels: { a: any(1) } })],
  ["a misspelt TTL", "options", () => client.runs.create(any({ tll: "1h" }))],
  ["a run's state that does not exist", "state", () => client.runs.list({ state: any("bogus") })],
  ["a negative page", "pageSize", () => client.runs.list({ pageSize: -1 })],
  ["a misspelt filter", "filter", () => client.calls.list(any({ sate: "queued" }))],
  ["one state that does not exist", "state", () => client.calls.list({ state: any(["queued", "bogus"]) })],
  ["payloads that are text", "payloads", () => client.calls.list({ payloads: any("no") })],
  ["a call's id that is a number", "call", () => client.calls.get(any(5))],
  ["an attempt with a fraction", "attempt", () => settle({ type: "tool.result", attempt: 1.5 })],
  ["a misspelt result", "settlement", () => settle({ type: "tool.result", reslt: 1 })],
  ["retryable as text", "retryable", () => settle({ type: "tool.error", error: "x", retryable: "no" })],
  ["an error that is missing", "error", () => settle({ type: "tool.error" })],
  ["a failure that is text", "failure", () => client.tasks.fail("token", any("message"))],
  ["an executor that does not exist", 'tools["a"].executor', () => put({ description: "", executor: "cli" })],
  ["a description that is a number", 'tools["a"].description', () => put({ description: 5 })],
  ["a tool that is null", 'tools["a"]', () => put(null)],
  [
    "a tool's limit without a unit",
    'tools["a"].policy.attemptTimeout',
    () => put({ description: "", policy: { attemptTimeout: 30 } }),
  ],
  ["a version with a fraction", "version", () => client.toolsets.get("t", 1.5)],
  [
    "a wait's misspelt timeout",
    "options",
    () =>
      client.runs
        .open(ID)
        .turn(1)
        .settled(any({ timout: "1s" })),
  ],
];

describe("what the wire cannot carry, or would silently leave out", () => {
  test.each(refused)("%s is refused, naming %s", async (_, field, call) => {
    const error: unknown = await call().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "INVALID_FIELD", metadata: { field } });
    expect(error).toHaveProperty("message", expect.stringMatching(/; allowed (is|are) /));
  });

  test.each([
    ["toolset", { toolset: 5 }],
    ["name", { name: 5 }],
    ["concurrency", { concurrency: "10" }],
    ["signal", { signal: "x" }],
    ["options", { concurency: 10 }],
    ["tools", { tools: null }],
  ])("a worker's bad %s is refused", (field, options) => {
    const own = new Trunkline({ url: "http://127.0.0.1:1", retryFor: "1ms", onWarning: () => undefined });
    expect(() => own.worker(any({ tools: { echo: () => 1 }, ...options }))).toThrow(
      expect.objectContaining({ reason: "INVALID_FIELD", metadata: { field } }),
    );
  });
});
