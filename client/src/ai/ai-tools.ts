import { refuseArgument } from "../argument.js";
import type { DefinedToolset } from "../define-toolset.js";
import {
  isStandardSchema,
  type StandardConverter,
  type StandardProps,
  type StandardSchemaV1,
} from "../standard-schema.js";
import type { CallerInput, ToolDefinitions } from "../tool-definition.js";
import type { ToolDeclarations } from "../toolsets.js";

/*
 * The shapes of the AI SDK are written out here, and nothing of it is imported: who uses another of its versions, or
 * checks its types more strictly than it does, is not held up by this entry.
 */

/** A tool as `generateText` and `streamText` of the AI SDK take it. It has no `execute`: its calls come back. */
export interface AiTool<Input> {
  readonly description: string;
  readonly inputSchema: StandardSchemaV1<unknown, Input> & {
    readonly "~standard": StandardProps<unknown, Input> & { readonly jsonSchema: StandardConverter };
  };
}

/** The name that a model knows a tool by: providers allow no dots. `crm.find_customer` is `crm_find_customer`. */
export type AiToolName<Name extends string> = Name extends `${infer Head}.${infer Rest}`
  ? `${Head}_${AiToolName<Rest>}`
  : Name;

/** A toolset's tools, by the names that a model knows them by. */
export type AiTools<Tools> = {
  [Name in keyof Tools & string as AiToolName<Name>]: AiTool<CallerInput<Tools[Name]>>;
};

/**
 * A toolset as tools of the AI SDK: `generateText({ model, messages, tools: aiTools(crm) })`. They have no `execute`,
 * so that the calls come back, to be opened by `openToolCalls`; let each call of `generateText` end after one step,
 * which is its default. Of a toolset that the server knows, give its tools:
 * `aiTools({ declarations: (await trunkline.toolsets.get("crm")).tools })`.
 *
 * What the model gives is checked by the tool's Standard Schema, if it has one, and passed on as the model gave it: the
 * worker transforms it.
 *
 * @throws TrunklineError INVALID_FIELD when two tools would have one name
 */
export function aiTools<Tools extends ToolDefinitions>(toolset: DefinedToolset<Tools>): AiTools<Tools>;
export function aiTools(toolset: {
  readonly declarations: ToolDeclarations;
}): Record<string, AiTool<unknown>>;
export function aiTools(toolset: {
  readonly declarations: ToolDeclarations;
  readonly tools?: ToolDefinitions;
}): Record<string, AiTool<unknown>> {
  const tools = [...aiNames(toolset.declarations)].map(([aiName, name]): [string, AiTool<unknown>] => {
    const { description = "", input } = toolset.declarations[name] ?? {};
    const checked = toolset.tools?.[name]?.input;
    return [aiName, { description, inputSchema: schemaOf(input, checked) }];
  });
  return Object.fromEntries(tools);
}

/**
 * The tools' names by those that a model knows them by.
 *
 * @throws TrunklineError INVALID_FIELD when two tools would have one name
 */
export function aiNames(declarations: ToolDeclarations): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const name of Object.keys(declarations)) {
    const aiName = name.replaceAll(".", "_");
    const other = names.get(aiName);
    if (other !== undefined) {
      const seen = `the model would know it and ${JSON.stringify(other)} as ${aiName}`;
      throw refuseArgument(`tools[${JSON.stringify(name)}]`, seen, "allowed are names that differ in more");
    }
    names.set(aiName, name);
  }
  return names;
}

function schemaOf(declared: unknown, checked: unknown): AiTool<unknown>["inputSchema"] {
  const isObject = typeof declared === "object" && declared !== null;
  const written: object = isObject ? declared : { type: "object", properties: {} };
  // The AI SDK changes the schema that it gets.
  const copy = (): Record<string, unknown> => ({ ...structuredClone(written) });
  const jsonSchema: StandardConverter = { input: copy, output: copy };
  const validate = async (value: unknown): Promise<Awaited<ReturnType<StandardProps["validate"]>>> => {
    if (!isStandardSchema(checked)) return { value };
    const { issues } = await checked["~standard"].validate(value);
    return issues === undefined ? { value } : { issues };
  };
  return { "~standard": { version: 1, vendor: "trunkline", validate, jsonSchema } };
}
