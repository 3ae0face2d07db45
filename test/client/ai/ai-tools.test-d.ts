/*
 * Compiled with all tests (`tsc -b`), never run: where it says that something does not compile, it does not.
 */
import { generateText, type LanguageModel, type ModelMessage } from "ai";
import { expectTypeOf } from "vitest";
import { z } from "zod";
import { defineToolset, type Run } from "@trunkline/sdk";
import { aiTools, openToolCalls, toolMessages } from "@trunkline/sdk/ai";

declare const model: LanguageModel;
declare const run: Run;

const crm = defineToolset("crm", {
  "crm.find_customer": {
    description: "Finds a customer",
    input: z.object({ at: z.iso.date().transform((day) => new Date(day)) }),
  },
  ping: { description: "Answers" },
});

export async function turnTypes(messages: ModelMessage[]): Promise<void> {
  const { toolCalls, response } = await generateText({ model, messages, tools: aiTools(crm) });
  messages.push(...response.messages);
  for (const call of toolCalls) {
    if (call.dynamic) continue;
    expectTypeOf(call.toolName).toEqualTypeOf<"crm_find_customer" | "ping">();
    if (call.toolName === "crm_find_customer") expectTypeOf(call.input).toEqualTypeOf<{ at: string }>();
    // @ts-expect-error -- the model knows no such name
    if (call.toolName === "crm.find_customer") continue;
  }
  const opened = await openToolCalls(run.turn(1), toolCalls, crm);
  messages.push(...toolMessages(toolCalls, await opened.settled()));
  messages.push(...toolMessages(toolCalls, await run.turn(1).settled()));
  // @ts-expect-error -- the model's id is the key
  await openToolCalls(run.turn(1), toolCalls, crm, { key: "mine" });
}
