/*
 * The interfaces of Standard Schema and Standard JSON Schema (standardschema.dev), copied as the specification
 * intends, so that they cost no dependency: what zod, valibot, arktype and others give.
 */

/** A schema that checks values, from whatever library. `Input` is what goes in, `Output` what comes out. */
export interface StandardSchemaV1<Input = unknown, Output = Input> {
  readonly "~standard": StandardProps<Input, Output>;
}

/** What a {@link StandardSchemaV1} can do. */
export interface StandardProps<Input = unknown, Output = Input> {
  readonly version: 1;
  /** The library's name. */
  readonly vendor: string;
  /** For the compiler alone. */
  readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
}

/** A value, perhaps another one than was given, or why there is none. */
export type StandardResult<Output> =
  { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly StandardIssue[] };

/** One thing that is wrong with a value. */
export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** A schema that can be written as JSON Schema. */
export interface StandardJsonSchemaV1 {
  readonly "~standard": { readonly jsonSchema: StandardConverter };
}

/** Writes JSON Schema; may throw where that cannot express the schema. */
export interface StandardConverter {
  /** Of what goes in. */
  readonly input: (options: { readonly target: string }) => Record<string, unknown>;
  /** Of what comes out. */
  readonly output: (options: { readonly target: string }) => Record<string, unknown>;
}

/** Whether it is a Standard Schema; those of arktype are functions. */
export function isStandardSchema(schema: unknown): schema is StandardSchemaV1 {
  const isContainer = (typeof schema === "object" && schema !== null) || typeof schema === "function";
  return isContainer && "~standard" in schema;
}
