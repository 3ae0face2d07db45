import { generateText, type ModelMessage } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import {
  defineToolset,
  HostToolError,
  rawJson,
  type Run,
  type Trunkline,
} from "../../../client/src/index.js";
import { aiTools, openToolCalls, toolMessages } from "../../../client/src/ai/index.js";
import { useBackend } from "../support/server.js";

const crm = defineToolset("ai", {
  "crm.find_customer": {
    description: "Finds a customer",
    input: z.object({ email: z.string(), since: z.iso.date().transform((day) => new Date(day)) }),
    output: z.object({ name: z.string(), sinceYear: z.number() }),
  },
  "crm.count": { description: "Counts", input: { type: "object", properties: { n: { type: "integer" } } } },
  greet: { description: "Greets", output: z.string() },
  "ask.user": { description: "A person answers", input: z.object({ q: z.string() }), executor: "client" },
});

const backend = useBackend();
let client: Trunkline;
let run: Run;

beforeAll(async () => {
  client = backend().client();
  await client.toolsets.put(crm.id, crm.declarations);
  run = await client.runs.create({ toolset: crm.id });
  client.worker({
    tools: crm.handlers({
      "crm.find_customer": ({ email, since }) => {
        if (!email.includes("@")) throw new HostToolError("no customer", { data: { code: "not_found" } });
        return { name: email, sinceYear: since.getUTCFullYear() };
      },
      "crm.count": () => rawJson('{"id": 9007199254740993, "text": "1.00000000000000000001"}'),
      greet: () => "hello",
    }),
  });
});

afterAll(async () => {
  await run.end();
  await client.close();
});

interface ModelCall {
  readonly id: string;
  readonly name: string;
  /** As the model writes it. */
  readonly input: string;
}

/** A model that answers with these tool calls first, and then with a text. */
function modelOf(...calls: readonly ModelCall[]): MockLanguageModelV3 {
  const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0, text: 1, reasoning: 0 };
  const usage = { inputTokens: tokens, outputTokens: tokens };
  const content = calls.map(({ id, name, input }) => ({
    ...{ type: "tool-call" as const, toolCallId: id, toolName: name, input },
  }));
  return new MockLanguageModelV3({
    doGenerate: [
      { content, finishReason: { unified: "tool-calls", raw: undefined }, usage, warnings: [] },
      {
        ...{ content: [{ type: "text", text: "done" }], usage, warnings: [] },
        finishReason: { unified: "stop", raw: undefined },
      },
    ],
  });
}

const START: ModelMessage[] = [{ role: "user", content: "go" }];

let turns = 0;

/** A turn of an engine: the model's calls, opened, ended and told to it. */
async function play(model: MockLanguageModelV3) {
  const { toolCalls, response } = await generateText({ model, messages: START, tools: aiTools(crm) });
  const opened = await openToolCalls(run.turn(++turns), toolCalls, crm);
  const told = toolMessages(toolCalls, await opened.settled());
  const messages = [...START, ...response.messages, ...told];
  const { text } = await generateText({ model, messages, tools: aiTools(crm) });
  return { toolCalls, opened, told, text, prompt: model.doGenerateCalls[1]?.prompt ?? [] };
}

const findAda = { id: "toolu_1", name: "crm_find_customer" };

test("a model's tool calls become a turn, and their ends one message, in the model's order", async () => {
  const model = modelOf(
    { ...findAda, input: '{"since": "2024-05-06", "email": "ada@example.com"}' },
    { id: "toolu_2", name: "crm_find_customer", input: '{"email": "nobody", "since": "2024-05-06"}' },
    { id: "toolu_3", name: "greet", input: "" },
    { id: "toolu_4", name: "crm_count", input: "{}" },
  );
  const { told, text, prompt } = await play(model);
  expect(told).toEqual([
    {
      role: "tool",
      content: [
        {
          ...{ type: "tool-result", toolCallId: "toolu_1", toolName: "crm_find_customer" },
          output: { type: "json", value: { name: "ada@example.com", sinceYear: 2024 } },
        },
        {
          ...{ type: "tool-result", toolCallId: "toolu_2", toolName: "crm_find_customer" },
          output: { type: "error-json", value: { message: "no customer", data: { code: "not_found" } } },
        },
        {
          ...{ type: "tool-result", toolCallId: "toolu_3", toolName: "greet" },
          output: { type: "text", value: "hello" },
        },
        {
          ...{ type: "tool-result", toolCallId: "toolu_4", toolName: "crm_count" },
          output: { type: "text", value: '{"id": 9007199254740993, "text": "1.00000000000000000001"}' },
        },
      ],
    },
  ]);
  expect(text).toBe("done");
  expect(prompt.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
});

test("what the model got wrong opens no call, and is told to it with the others", async () => {
  const model = modelOf(
    { id: "wrong_1", name: "crm_count", input: '{"n": "many"}' },
    { id: "wrong_2", name: "greet", input: "{}" },
    // These two the AI SDK itself answers.
    { id: "wrong_3", name: "crm_find_customer", input: '{"email": 7}' },
    { id: "wrong_4", name: "crm_drop", input: "{}" },
  );
  const { toolCalls, opened, told, prompt } = await play(model);
  expect(opened.handles.map(({ key }) => key)).toEqual(["wrong_2"]);
  expect(opened.refused.map(({ key, error }) => [key, error.reason])).toEqual([
    ["wrong_1", "SCHEMA_VIOLATION"],
  ]);
  expect(told[0]?.content).toMatchObject([
    { toolCallId: "wrong_1", output: { type: "error-text", value: expect.stringContaining("integer") } },
    { toolCallId: "wrong_2", output: { type: "text", value: "hello" } },
  ]);
  // One result for each, which is what providers demand.
  const results = prompt.flatMap((message) => (message.role === "tool" ? message.content : []));
  const answered = results.flatMap((part) => (part.type === "tool-result" ? [part.toolCallId] : []));
  expect(answered.toSorted()).toEqual(toolCalls.map(({ toolCallId }) => toolCallId));

  // A transcript may have lost what the AI SDK knew.
  const bare = toolCalls.map(({ toolCallId, toolName, input }) => ({ toolCallId, toolName, input }));
  const again = await openToolCalls(run.turn(turns), bare.slice(3), crm);
  expect(toolMessages(bare.slice(3), await again.settled())[0]?.content).toMatchObject([
    { toolCallId: "wrong_4", output: { type: "error-text", value: expect.stringContaining("crm_drop") } },
  ]);
});

test("opening them again, from a transcript whose keys were reordered, opens no second call", async () => {
  const number = ++turns;
  const input = { since: "2024-05-06", email: "a@b", more: { b: 1, a: [{ d: 1, c: 2 }] } };
  const reordered = { more: { a: [{ c: 2, d: 1 }], b: 1 }, email: "a@b", since: "2024-05-06" };
  const call = { toolCallId: "again_1", toolName: "crm_find_customer" };
  const first = await openToolCalls(run.turn(number), [{ ...call, input }], crm);
  const second = await openToolCalls(run.turn(number), [{ ...call, input: reordered }], crm);
  expect(first.handles[0]?.created).toBe(true);
  expect(second.handles[0]).toMatchObject({ created: false, id: first.handles[0]?.id });
  expect(await second.settled()).toEqual(await first.settled());
  // The same id in a later turn is another call, or nobody could tell their results apart.
  const later = openToolCalls(run.turn(number + 100), [{ ...call, input }], crm);
  await expect(later).rejects.toMatchObject({ name: "BatchError", reason: "KEY_REUSED" });
});

test("a call that a person answers, or nobody, is told as what became of it", async () => {
  const turn = run.turn(++turns);
  const asked = [
    { toolCallId: "ask_1", toolName: "ask_user", input: { q: "really?" } },
    { toolCallId: "ask_2", toolName: "ask_user", input: { q: "sure?" } },
  ];
  const { handles, settled } = await openToolCalls(turn, asked, crm);
  expect(() => toolMessages(asked, [])).toThrow('none has the key "ask_1", of a call of ask_user');
  await client.calls.settle({ run: run.id, key: "ask_1" }, { type: "tool.result", result: { yes: true } });
  await handles[1]?.cancel();
  expect(toolMessages(asked, await settled())[0]?.content.map(({ output }) => output)).toEqual([
    { type: "json", value: { yes: true } },
    { type: "error-text", value: "canceled: the call was canceled" },
  ]);
});

test("calls that the provider has executed are its own, and no calls need no message", async () => {
  const call = { toolCallId: "p_1", toolName: "web_search", input: {}, providerExecuted: true };
  const { handles, settled } = await openToolCalls(run.turn(++turns), [call], crm);
  expect(handles).toEqual([]);
  expect(toolMessages([call], await settled())).toEqual([]);
});
