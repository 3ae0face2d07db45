import { aiTools, toolMessages } from "@trunkline/sdk/ai";

/**
 * Who uses the script alone needs no `ai`.
 *
 * @type {string}
 */
const AI_SDK = "ai";

/**
 * Where a key of a provider is, and what makes its models.
 *
 * @type {Readonly<Record<string, { key: string, package: string }>>}
 */
const PROVIDERS = {
  anthropic: { key: "ANTHROPIC_API_KEY", package: "@ai-sdk/anthropic" },
  openai: { key: "OPENAI_API_KEY", package: "@ai-sdk/openai" },
  google: { key: "GOOGLE_GENERATIVE_AI_API_KEY", package: "@ai-sdk/google" },
};

/**
 * A `LanguageModel` of the AI SDK.
 *
 * @typedef {string | { readonly modelId: string }} AiModel
 */

/**
 * The language model of this name: by the provider's package, where its key is in the environment, or else by Vercel's
 * gateway, where that one's is.
 *
 * @param {string} name As `anthropic/claude-sonnet-4-5`.
 * @param {Readonly<Record<string, string | undefined>>} [env]
 * @returns {Promise<AiModel>}
 */
export async function languageModel(name, env = process.env) {
  const [provider = "", ...rest] = name.split("/");
  const known = Object.hasOwn(PROVIDERS, provider) ? PROVIDERS[provider] : undefined;
  if (known !== undefined && env[known.key] !== undefined) {
    const module = await import(known.package);
    return module[provider](rest.join("/"));
  }
  if (env["AI_GATEWAY_API_KEY"] !== undefined) return name;
  const keys = Object.values(PROVIDERS).map(({ key }) => key);
  throw new Error(
    `AGENT_MODEL=${name}: set the key of its provider (${keys.join(", ")}) or AI_GATEWAY_API_KEY; ` +
      `names are as anthropic/claude-sonnet-4-5`,
  );
}

/**
 * A model over the Vercel AI SDK. The SDK runs no tool: it only asks the model, and the engine opens the calls.
 *
 * @param {AiModel} model
 * @returns {import("./model.mjs").Model}
 */
export function aiSdkModel(model) {
  const name = typeof model === "string" ? model : model.modelId;
  return {
    name,
    answer: async ({ system, messages, tools }) => {
      const { generateText } = await import(AI_SDK);
      const { text, toolCalls, finishReason, response } = await generateText({
        ...{ model, system, messages: toAiMessages(messages), tools: aiTools({ declarations: tools }) },
      });
      if (finishReason === "error") throw new Error(`${name} ended with an error`);
      return {
        text,
        toolCalls: toolCalls.map(toToolCall),
        // With what providers want back unchanged, such as signed reasoning.
        native: response.messages.filter((/** @type {{ role: string }} */ { role }) => role === "assistant"),
      };
    },
  };
}

/**
 * A tool call; `invalid` where the SDK could not read it.
 *
 * @param {{ toolCallId: string, toolName: string, input: unknown, invalid?: boolean, error?: unknown }} call
 */
function toToolCall({ toolCallId, toolName, input, invalid, error }) {
  const call = { id: toolCallId, name: toolName, input };
  return invalid === true
    ? { ...call, invalid: error instanceof Error ? error.message : String(error) }
    : call;
}

/**
 * The conversation as the SDK takes it.
 *
 * @param {readonly import("./messages.mjs").Message[]} messages
 * @returns {unknown[]}
 */
function toAiMessages(messages) {
  return messages.flatMap((message) => {
    if (message.role === "user") return [{ role: "user", content: message.text }];
    if (message.role === "assistant") return message.native ?? [];
    // One by one: a model may have used an id twice.
    const results = message.results.flatMap((result) => toolMessages([toCall(result)], [toEnd(result)]));
    return { role: "tool", content: results.flatMap(({ content }) => content) };
  });
}

/** @param {import("./transcript.mjs").ToolResult} result */
const toCall = ({ id, name }) => ({ toolCallId: id, toolName: name, input: null });

/**
 * How a call ended, as the SDK of Trunkline says it, of which the message needs no more than was recorded.
 *
 * @param {import("./transcript.mjs").ToolResult} result
 * @returns {any}
 */
function toEnd({ id: key, ...end }) {
  if (end.state === "succeeded") return { key, ...end, result: JSON.parse(end.resultJson) };
  return end.state === "refused" ? { key, error: end.error } : { key, ...end };
}
