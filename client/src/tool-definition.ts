import type { Executor } from "./call.js";
import type { Deferred, ToolContext } from "./context.js";
import type { Policy } from "./policy.js";
import type { OpenOptions } from "./run.js";
import type { StandardSchemaV1 } from "./standard-schema.js";

declare const TYPE: unique symbol;

/** A JSON Schema, with the type of the values that it allows if {@link jsonSchema} gave it one. */
export type JsonSchema<Value = unknown> = Readonly<Record<string, unknown>> & { readonly [TYPE]?: Value };

/**
 * A JSON Schema as it is, with the type of its values, which is the caller's word:
 * `jsonSchema<{ email: string }>({ type: "object", properties: { email: { type: "string" } } })`.
 */
export function jsonSchema<Value>(schema: Readonly<Record<string, unknown>>): JsonSchema<Value> {
  return schema;
}

/** The declaration of one tool, from which its types follow. */
export interface ToolDefinition {
  /** For the model. At most 16 KiB. */
  readonly description: string;
  /** A Standard Schema (zod, valibot, arktype …) or a JSON Schema of the input. Default: anything. */
  readonly input?: StandardSchemaV1 | JsonSchema;
  /** The JSON Schema of what goes into `input`, where that is a Standard Schema which cannot be written as one. */
  readonly inputSchema?: JsonSchema;
  /** A Standard Schema or a JSON Schema of the result. Default: anything. */
  readonly output?: StandardSchemaV1 | JsonSchema;
  /** The JSON Schema of what comes out of `output`, likewise. */
  readonly outputSchema?: JsonSchema;
  /** Default: the defaults of {@link Policy}. */
  readonly policy?: Policy;
  /** Who executes it. Default `worker`. */
  readonly executor?: Executor;
}

/** Tools by their names: 1 to 128 of `[A-Za-z0-9_.-]`. */
export type ToolDefinitions = Readonly<Record<string, ToolDefinition>>;

/** The type of what goes into a schema. */
type Into<Schema> =
  Schema extends StandardSchemaV1<infer Input, unknown>
    ? Input
    : Schema extends JsonSchema<infer Value>
      ? Value
      : unknown;

/** The type of what comes out of a schema. */
type OutOf<Schema> =
  Schema extends StandardSchemaV1<infer _, infer Output>
    ? Output
    : Schema extends JsonSchema<infer Value>
      ? Value
      : unknown;

/** What is left of a type that JSON has carried: a `Date` arrives as a text. */
type FromJson<Value> = unknown extends Value
  ? Value
  : Value extends string | number | boolean | null | undefined
    ? Value
    : Value extends { toJSON(): infer Written }
      ? FromJson<Written>
      : { [Key in keyof Value]: FromJson<Value[Key]> };

/** What a caller of the tool gives: what goes into its input schema. */
export type CallerInput<Tool> = Tool extends { readonly input: infer Schema } ? Into<Schema> : unknown;

/** What a caller of the tool gets: what came out of its output schema at the worker, as JSON carries it. */
export type CallerResult<Tool> = Tool extends { readonly output: infer Schema }
  ? FromJson<OutOf<Schema>>
  : unknown;

/** What a handler of the tool gets: what comes out of its input schema. */
export type HandlerInput<Tool> = Tool extends { readonly input: infer Schema } ? OutOf<Schema> : unknown;

/** What a handler of the tool returns: what goes into its output schema. */
export type HandlerResult<Tool> = Tool extends { readonly output: infer Schema } ? Into<Schema> : unknown;

/** The handler of a tool; one that defers returns what `context.defer()` gave. */
export type TypedHandler<Tool> = (
  input: HandlerInput<Tool>,
  context: ToolContext,
) => HandlerResult<Tool> | Deferred | Promise<HandlerResult<Tool> | Deferred>;

/** Handlers of tools that workers execute, by their names; a worker may have some of them. */
export type TypedHandlers<Tools> = {
  readonly [
    Name in keyof Tools as Tools[Name] extends { readonly executor: "client" } ? never : Name
  ]?: TypedHandler<Tools[Name]>;
};

/** Calls a tool; its input may be left out where that may be anything, or undefined. */
export type ToolCaller<Tool> =
  undefined extends CallerInput<Tool>
    ? (input?: CallerInput<Tool>, options?: OpenOptions) => Promise<CallerResult<Tool>>
    : (input: CallerInput<Tool>, options?: OpenOptions) => Promise<CallerResult<Tool>>;

/** Tools as functions that open calls, each at the path that its name is: `crm.find_customer`. */
export type ToolCallers<Tools> = AtPaths<{
  [Name in keyof Tools & string]: ToolCaller<Tools[Name]>;
}>;

type HeadOf<Name extends string> = Name extends `${infer Head}.${string}` ? Head : Name;

type AtPaths<Callers> = {
  readonly [Head in HeadOf<keyof Callers & string>]: (Head extends keyof Callers ? Callers[Head] : unknown) &
    Under<Callers, Head>;
};

type Under<Callers, Head extends string> = keyof Callers & `${Head}.${string}` extends never
  ? unknown
  : AtPaths<{
      [Name in keyof Callers as Name extends `${Head}.${infer Rest}` ? Rest : never]: Callers[Name];
    }>;
