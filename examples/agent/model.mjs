import { aiSdkModel, languageModel } from "./ai-sdk-model.mjs";
import { witness } from "./evidence.mjs";
import { scriptedModel } from "./scripted-model.mjs";

/**
 * What a model is asked.
 *
 * @typedef {object} Prompt
 * @property {string} system
 * @property {readonly import("./messages.mjs").Message[]} messages
 * @property {import("@trunkline/sdk").ToolDeclarations} tools
 */

/**
 * What it says: `native` is whatever the model's implementation wants to find in its messages later.
 *
 * @typedef {object} Answer
 * @property {string} text
 * @property {readonly Omit<import("./transcript.mjs").ToolCall, "key">[]} toolCalls
 * @property {unknown} [native] Anything that JSON can carry.
 */

/**
 * A model, whoever provides it.
 *
 * @typedef {object} Model
 * @property {string} name
 * @property {(prompt: Prompt) => Promise<Answer>} answer Rejects when there is no answer to be had; the engine then
 *   ends, and asks again when it is started again.
 */

/**
 * The model that the environment names: `AGENT_MODEL=anthropic/NAME` with a key and `ai` installed, or else the script.
 *
 * @param {{ session: string, engine: string }} asking Who asks it.
 * @returns {Promise<Model>}
 */
export async function chooseModel(asking) {
  const { AGENT_MODEL = "" } = process.env;
  const model = AGENT_MODEL === "" ? scriptedModel() : aiSdkModel(await languageModel(AGENT_MODEL));
  return {
    name: model.name,
    answer: async (prompt) => {
      const turn = prompt.messages.filter(({ role }) => role === "assistant").length + 1;
      await witness("prompts", { ...asking, turn });
      return model.answer(prompt);
    },
  };
}
