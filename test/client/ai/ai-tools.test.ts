import { generateText } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineToolset } from "../../../client/src/index.js";
import { aiTools } from "../../../client/src/ai/index.js";

const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0, text: 1, reasoning: 0 };

/** What a model is told of the tools, and how the AI SDK reads this call of one. */
async function ask(tools: ReturnType<typeof aiTools>, toolName: string, input: string) {
  const model = new MockLanguageModelV3({
    doGenerate: {
      content: [{ type: "tool-call", toolCallId: "1", toolName, input }],
      finishReason: { unified: "tool-calls", raw: undefined },
      usage: { inputTokens: tokens, outputTokens: tokens },
      warnings: [],
    },
  });
  const { toolCalls } = await generateText({ model, prompt: "go", tools });
  return { told: model.doGenerateCalls[0]?.tools ?? [], call: toolCalls[0] };
}

describe("aiTools", () => {
  const crm = defineToolset("crm", {
    "crm.find_customer": {
      description: "Finds a customer",
      input: z.object({
        since: z.iso.date().transform((day) => new Date(day)),
        limit: z.number().default(1),
      }),
    },
    ping: { description: "Answers" },
  });

  test("tells the model each tool by a name that providers allow, with its input's schema", async () => {
    const before = structuredClone(crm.declarations);
    const { told } = await ask(aiTools(crm), "ping", "{}");
    expect(told).toMatchObject([
      {
        ...{ type: "function", name: "crm_find_customer", description: "Finds a customer" },
        inputSchema: { type: "object", properties: { since: { type: "string" } }, required: ["since"] },
      },
      { type: "function", name: "ping", inputSchema: { type: "object", properties: {} } },
    ]);
    // The AI SDK changes the schemas that it is given.
    expect(crm.declarations).toEqual(before);
  });

  test("leaves an input as the model gave it, for the worker to transform", async () => {
    const { call } = await ask(aiTools(crm), "crm_find_customer", '{"since": "2024-05-06"}');
    expect(call).toMatchObject({ input: { since: "2024-05-06" }, toolName: "crm_find_customer" });
    expect(call?.invalid).not.toBe(true);
  });

  test("has the AI SDK find out what the input's schema refuses", async () => {
    const { call } = await ask(aiTools(crm), "crm_find_customer", '{"since": "yesterday"}');
    expect(call).toMatchObject({ invalid: true, input: { since: "yesterday" } });
  });

  test("takes the declarations of a toolset that the server has", async () => {
    const { told } = await ask(aiTools({ declarations: crm.declarations }), "ping", "{}");
    expect(told.map(({ name }) => name)).toEqual(["crm_find_customer", "ping"]);
  });

  test("refuses two tools that the model could not tell apart", () => {
    const declarations = { "a.b": { description: "" }, a_b: { description: "" } };
    expect(() => aiTools({ declarations })).toThrow(
      'tools["a_b"]: the model would know it and "a.b" as a_b; allowed are names that differ in more',
    );
  });
});
