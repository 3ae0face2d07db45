/** The name under which the harness stores the declarations, and by which its runs refer to them. */
export const TOOLSET = "assistant";

/**
 * A tool that a page answers, since its executor is `client`: no worker ever gets it.
 *
 * @type {import("@trunkline/sdk").ToolDeclarations}
 */
export const tools = {
  "ask.user": {
    description: "Asks the user to choose. Give a question and the choices.",
    executor: "client",
    input: {
      type: "object",
      properties: {
        question: { type: "string" },
        choices: { type: "array", items: { type: "string" }, minItems: 1 },
      },
      required: ["question", "choices"],
    },
    output: { type: "object", properties: { choice: { type: "string" } }, required: ["choice"] },
    policy: { deferTimeout: "3d" },
  },
};
