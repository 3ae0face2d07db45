import { appendFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Call } from "@trunkline/sdk";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { faultsOf, finalAnswer, type Session } from "../../examples/agent/checks.mjs";
import { unusedKey } from "../../examples/agent/agent.mjs";
import { languageModel } from "../../examples/agent/ai-sdk-model.mjs";
import { Transcript, fileOf, recordsOf, type Entry, type Stored } from "../../examples/agent/transcript.mjs";

const REQUEST: Entry = { type: "request", id: "r", text: "go" };

describe("the agent's transcript", () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "trunkline-test-transcript-"));
  });

  afterEach(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  const stored = async (): Promise<Stored[]> => recordsOf(await readFile(fileOf(folder, "s"), "utf8"));

  test("is there again after a restart, as it was written", async () => {
    const first = await Transcript.open(folder, "s");
    const answer = {
      type: "answer",
      turn: 1,
      text: "ü",
      toolCalls: [],
      native: { a: undefined, b: 1 },
    } as const;
    await first.append(REQUEST);
    const record = await first.append({ ...answer, toolCalls: [] });
    await first.close();
    const second = await Transcript.open(folder, "s");
    expect(second.records).toMatchObject([REQUEST, { text: "ü", native: { b: 1 } }]);
    expect(second.last).toEqual(record);
    await second.close();
  });

  test("takes a line that a crash has cut as never written, and goes on after it", async () => {
    const first = await Transcript.open(folder, "s");
    await first.append(REQUEST);
    await first.close();
    await appendFile(fileOf(folder, "s"), '{"n":1,"engine":"x","type":"ru');
    const second = await Transcript.open(folder, "s");
    expect(second.records).toHaveLength(1);
    await second.append({ type: "run", id: "a" });
    await second.append({ type: "answer", turn: 1, text: "done", toolCalls: [] });
    await second.close();
    expect((await stored()).map(({ type }) => type)).toEqual(["request", "run", "answer"]);
  });

  test("has a record of whose line nothing but the end was cut, and goes on after it", async () => {
    const first = await Transcript.open(folder, "s");
    await first.append(REQUEST);
    await first.close();
    await appendFile(fileOf(folder, "s"), '{"n":1,"engine":"x","type":"run","id":"a"}');
    const second = await Transcript.open(folder, "s");
    expect(second.last).toMatchObject({ type: "run", id: "a" });
    await second.append({ type: "answer", turn: 1, text: "done", toolCalls: [] });
    await second.close();
    expect((await stored()).map(({ type }) => type)).toEqual(["request", "run", "answer"]);
  });

  test("belongs to one of two engines that work on it at once, and the other stops", async () => {
    const [one, two] = [await Transcript.open(folder, "s"), await Transcript.open(folder, "s")];
    await one.append(REQUEST);
    await expect(two.append({ ...REQUEST, text: "other" })).rejects.toThrow("another engine works");
    await one.append({ type: "run", id: "a" });
    await one.close();
    await two.close();
    expect(await stored()).toMatchObject([REQUEST, { type: "run", id: "a" }]);
  });

  test("of which a record is missing is no transcript", () => {
    const line = (n: number): string => JSON.stringify({ n, engine: "x", ...REQUEST });
    expect(() => recordsOf(`${line(0)}\n${line(2)}\n`)).toThrow("record 1 is missing");
  });

  test("is a file of its folder", async () => {
    await expect(Transcript.open(folder, "../s")).rejects.toThrow('session "../s"; allowed are');
  });
});

describe("the agent's checker", () => {
  const engine = "e1";
  const toolCalls = [
    { id: "a", key: "a", name: "weather", input: { city: "Oslo" } },
    { id: "b", key: "b", name: "ask", input: {} },
    { id: "c", key: "c", name: "weather", input: {} },
  ];
  const results = [
    { id: "a", name: "weather", state: "succeeded", resultJson: '"snow"' },
    {
      id: "b",
      name: "ask",
      state: "failed",
      error: { kind: "tool", message: "no", data: undefined, outcomeUnknown: false },
    },
    { id: "c", name: "weather", state: "refused", error: { message: "no city" } },
  ] as const;
  const RECORDS: readonly Entry[] = [
    REQUEST,
    { type: "run", id: "run" },
    { type: "answer", turn: 1, text: "", toolCalls },
    { type: "results", turn: 1, results: [...results] },
    { type: "answer", turn: 2, text: "snow", toolCalls: [] },
  ];
  const call = (seq: number, key: string, fields: Partial<Call>) =>
    // What the checker looks at.
    ({ id: `run/${seq}`, key, turn: 1, attempt: 1, spent: 1, executor: "worker", ...fields }) as Call;
  const CALLS = [
    call(1, "a", { tool: "weather", input: { city: "Oslo" }, state: "succeeded", resultJson: '"snow"' }),
    call(2, "b", {
      tool: "ask",
      input: {},
      state: "failed",
      executor: "client",
      error: { message: "no" } as Call["error"],
    }),
  ];
  const session = (records: readonly Entry[] = RECORDS, other: Partial<Session> = {}): Session => ({
    records: records.map((record, n) => ({ n, engine, ...record })),
    calls: CALLS,
    work: [{ callId: "run/1", attempt: 1, tool: "weather" }],
    prompts: [
      { engine, turn: 1 },
      { engine, turn: 2 },
    ],
    ...other,
  });
  const changed = (n: number, change: object): Entry[] =>
    RECORDS.map((record, index) => (index === n ? { ...record, ...change } : record));

  test("finds nothing wrong with a session that is as promised", () => {
    expect(faultsOf(session())).toEqual([]);
    expect(finalAnswer(session().records)).toBe("snow");
  });

  test.for<[string, Session, RegExp]>([
    ["a half-finished turn", session(RECORDS.filter((_, n) => n !== 3)), /answers \[\] of \[a, b, c\]/],
    [
      "a missing result",
      session(changed(3, { results: results.slice(0, 2) })),
      /answers \[a, b\] of \[a, b, c\]/,
    ],
    [
      "results in another order",
      session(changed(3, { results: [...results].reverse() })),
      /answers \[c, b, a\]/,
    ],
    ["no end", session(RECORDS.slice(0, 4)), /no final answer/],
    [
      "another result",
      session(RECORDS, { calls: [{ ...CALLS[0]!, resultJson: "1" }, CALLS[1]!] }),
      /run\/1 ended otherwise/,
    ],
    [
      "another input",
      session(RECORDS, { calls: [{ ...CALLS[0]!, input: {} }, CALLS[1]!] }),
      /is not what a asked for/,
    ],
    ["a call that is missing", session(RECORDS, { calls: CALLS.slice(1) }), /a was never opened/],
    [
      "a call too many",
      session(RECORDS, { calls: [...CALLS, call(3, "d", {})] }),
      /run\/3 \(d\) was asked for by no/,
    ],
    [
      "a refused call that is open",
      session(RECORDS, { calls: [...CALLS, call(3, "c", {})] }),
      /recorded as refused/,
    ],
    [
      "another order of opening",
      session(RECORDS, { calls: [{ ...CALLS[0]!, id: "run/9" }, CALLS[1]!] }),
      /out of order/,
    ],
    [
      "one id twice",
      session(changed(4, { toolCalls: toolCalls.slice(0, 1) })),
      /two tool calls with the id a/,
    ],
    [
      "an attempt twice",
      session(RECORDS, { work: [1, 1].map((attempt) => ({ callId: "run/1", attempt, tool: "weather" })) }),
      /started twice/,
    ],
    [
      "a client call at a worker",
      session(RECORDS, { work: [{ callId: "run/2", attempt: 1, tool: "ask" }] }),
      /client call run\/2/,
    ],
    [
      "a result of nobody",
      session(RECORDS, { work: [] }),
      /run\/1 succeeded in an attempt that no worker started/,
    ],
    [
      "a needless prompt",
      session(RECORDS, { prompts: [1, 1, 2].map((turn) => ({ engine, turn })) }),
      /turn 1 was asked after turn 1/,
    ],
    [
      "a prompt after its answer",
      session(RECORDS, {
        prompts: [
          { engine, turn: 1 },
          { engine: "e2", turn: 1 },
          { engine, turn: 2 },
        ],
      }),
      /although its answer was recorded/,
    ],
  ])("finds %s", ([, broken, fault]) => {
    expect(faultsOf(broken).join("\n")).toMatch(fault);
  });

  test("lets a prompt be repeated whose answer was not recorded", () => {
    const prompts = [{ engine: "e0", turn: 1 }, ...session().prompts!];
    expect(faultsOf(session(RECORDS, { prompts }))).toEqual([]);
  });
});

describe("the agent's real models", () => {
  test("want a key, and say which", async () => {
    await expect(languageModel("anthropic/some-model", {})).rejects.toThrow(
      /ANTHROPIC_API_KEY, OPENAI_API_KEY/,
    );
  });
});

test("a tool call whose id is none, too long, or used before has a key of its own", () => {
  const used = new Set<string>();
  const long = "\u{1F600}".repeat(100);
  const keys = ["a", "a", "", `x${long}`].map((id, index) => unusedKey(used, id, `2.${index}`));
  expect(keys.slice(0, 3)).toEqual(["a", "2.1/a", "2.2/"]);
  expect(keys[3]!.isWellFormed()).toBe(true);
  expect(new Set(keys).size).toBe(4);
  expect(keys.every((key) => Buffer.byteLength(key) <= 256)).toBe(true);
});
