import { refuseArgument } from "./argument.js";
import { checkedHandler } from "./checked-handler.js";
import type { ToolHandler } from "./handler.js";
import { checkHandlers } from "./handler-table.js";
import type { Run } from "./run.js";
import { present } from "./text.js";
import type { ToolCallers, ToolDefinitions, TypedHandlers } from "./tool-definition.js";
import { declarationOf } from "./tool-schema.js";
import type { ToolDeclarations } from "./toolsets.js";

/** A toolset with the types of its tools; made by {@link defineToolset}. */
export class DefinedToolset<Tools extends ToolDefinitions> {
  /** The toolset's name at the server: `client.runs.create({ toolset: crm.id })`. */
  readonly id: string;
  /** As they were defined. */
  readonly tools: Tools;
  /** For the server: `client.toolsets.put(crm.id, crm.declarations)`. */
  readonly declarations: ToolDeclarations;

  /** Use {@link defineToolset}. */
  constructor(id: string, tools: Tools) {
    this.id = present(id, "id");
    const given: unknown = tools;
    if (typeof given !== "object" || given === null) {
      throw refuseArgument("tools", "they are missing", "allowed are tools by their names");
    }
    this.tools = tools;
    const declared = Object.entries(tools).map(([name, tool]) => [name, declarationOf(name, tool)] as const);
    this.declarations = Object.fromEntries(declared);
  }

  /**
   * Handlers of some or all of its tools, for `client.worker({ tools: crm.handlers({ … }) })`. Each gets what comes out
   * of its tool's input schema, and what it returns goes through the output schema. Input that does not fit fails the
   * call as `tool`, before the handler starts, with the issues as data; a result that does not fit fails it as
   * `invalid_answer`. (What a JSON Schema says is checked by the server.)
   *
   * @throws TrunklineError INVALID_FIELD for a tool that is not declared, or that clients execute
   */
  handlers(handlers: TypedHandlers<Tools>): Readonly<Record<string, ToolHandler>> {
    // Their types are for the compiler; each is looked at here.
    const given = checkHandlers(handlers as Readonly<Record<string, ToolHandler>>);
    const checked = [...given].map(([name, handler]): [string, ToolHandler] => {
      const field = `handlers[${JSON.stringify(name)}]`;
      const tool = Object.hasOwn(this.tools, name) ? this.tools[name] : undefined;
      if (tool === undefined) {
        const allowed = `allowed are ${Object.keys(this.tools).join(", ")}`;
        throw refuseArgument(field, `toolset ${this.id} does not declare it`, allowed);
      }
      if (tool.executor === "client") {
        throw refuseArgument(field, "clients execute it", "allowed are tools that workers execute");
      }
      return [name, checkedHandler(tool, handler)];
    });
    return Object.fromEntries(checked);
  }

  /**
   * Its tools as functions that open calls in a run: `crm.of(run).crm.find_customer({ email })`; the same as
   * `run.tools(crm)`. The types hold what the server holds callers and workers to, in a run with this toolset.
   */
  of(run: Pick<Run, "tools">): ToolCallers<Tools> {
    return run.tools(this);
  }
}

/**
 * Declares a toolset, once for those who call its tools and those who handle them: types follow from Standard Schemas
 * (zod, valibot, arktype …), or from a JSON Schema's {@link jsonSchema}.
 *
 * ```ts
 * const crm = defineToolset("crm", {
 *   "crm.find_customer": {
 *     description: "Finds a customer by email address",
 *     input: z.object({ email: z.email() }),
 *     output: z.object({ name: z.string(), plan: z.enum(["free", "pro"]) }),
 *   },
 * });
 *
 * await trunkline.toolsets.put(crm.id, crm.declarations);
 * trunkline.worker({
 *   tools: crm.handlers({
 *     "crm.find_customer": async ({ email }) => ({ name: email, plan: "free" }),
 *   }),
 * });
 * const run = await trunkline.runs.create({ toolset: crm.id });
 * const { name } = await crm.of(run).crm.find_customer({ email: "ada@example.com" });
 * ```
 *
 * The server checks both by JSON Schema, which Standard Schemas write themselves (zod from 4.2 on, arktype; valibot by
 * `toStandardJsonSchema` of `@valibot/to-json-schema`), or which is given besides. Patterns that they write with
 * look-around are left out of it, since the server has none; the schema itself still checks them at the worker.
 *
 * @throws TrunklineError INVALID_FIELD for a Standard Schema that cannot be written as JSON Schema
 */
export function defineToolset<Tools extends ToolDefinitions>(
  id: string,
  tools: Tools,
): DefinedToolset<Tools> {
  return new DefinedToolset(id, tools);
}
