import { onlyFields, refuseArgument } from "./argument.js";
import { TrunklineError } from "./errors.js";
import { nameThrown } from "./json.js";
import { isStandardSchema, type StandardJsonSchemaV1, type StandardSchemaV1 } from "./standard-schema.js";
import type { ToolDefinition } from "./tool-definition.js";
import type { ToolDeclaration } from "./toolsets.js";

/** The dialect that the server reads by default. */
const TARGET = "draft-2020-12";

const FIELDS: Record<keyof ToolDefinition, true> = {
  description: true,
  input: true,
  inputSchema: true,
  output: true,
  outputSchema: true,
  policy: true,
  executor: true,
};

/** Look-around and back-references: the server runs patterns in linear time, and refuses these. */
const NOT_LINEAR = /\(\?<?[=!]|\\[1-9]|\\k</;

/** Keywords with values, not schemas, below them. */
const VALUES = new Set(["const", "enum", "default", "examples"]);

/** Keywords with schemas by names below them; a property may be called as a keyword is. */
const NAMED = new Set(["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"]);

/**
 * A tool's definition as `client.toolsets.put` takes it: its schemas as JSON Schema.
 *
 * @throws TrunklineError INVALID_FIELD for a Standard Schema that cannot be written as JSON Schema
 */
export function declarationOf(name: string, tool: ToolDefinition): ToolDeclaration {
  const field = `tools[${JSON.stringify(name)}]`;
  onlyFields(tool, FIELDS, field);
  const input = writtenSchema(tool.input, tool.inputSchema, "input", `${field}.input`);
  const output = writtenSchema(tool.output, tool.outputSchema, "output", `${field}.output`);
  return {
    description: tool.description,
    ...(input !== undefined && { input }),
    ...(output !== undefined && { output }),
    ...(tool.policy !== undefined && { policy: tool.policy }),
    ...(tool.executor !== undefined && { executor: tool.executor }),
  };
}

function writtenSchema(schema: unknown, written: unknown, side: "input" | "output", field: string): unknown {
  if (isStandardSchema(schema)) return written ?? convert(schema, side, field);
  if (written === undefined) return schema;
  const seen = schema === undefined ? `there is no ${side}` : `${side} is a JSON Schema itself`;
  throw refuseArgument(`${field}Schema`, seen, "allowed beside a Standard Schema");
}

function convert(schema: StandardSchemaV1, side: "input" | "output", field: string): unknown {
  // Looked at before it is used: a library may not have this part of the standard.
  const { jsonSchema } = schema["~standard"] as Partial<StandardJsonSchemaV1["~standard"]>;
  const { vendor } = schema["~standard"];
  if (jsonSchema === undefined) {
    throw refuseArgument(
      field,
      `the schema, of ${vendor}, cannot write itself as JSON Schema`,
      "allowed is one that can (zod's from zod 4.2 on, valibot's as toStandardJsonSchema of " +
        `@valibot/to-json-schema makes it), or give ${side}Schema besides`,
    );
  }
  try {
    return withLinearPatterns(jsonSchema[side]({ target: TARGET }));
  } catch (error) {
    const why = nameThrown(error);
    throw new TrunklineError(
      "INVALID_FIELD",
      `${field}: ${vendor} cannot write the schema as JSON Schema (${why}); give ${side}Schema besides`,
      { metadata: { field }, cause: error },
    );
  }
}

/** Without the patterns that the server would refuse; the schema itself checks them where values are used. */
function withLinearPatterns(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withLinearPatterns);
  if (typeof schema !== "object" || schema === null) return schema;
  const kept: [string, unknown][] = [];
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === "pattern" && typeof value === "string" && NOT_LINEAR.test(value)) continue;
    if (VALUES.has(keyword)) kept.push([keyword, value]);
    else kept.push([keyword, NAMED.has(keyword) ? eachWithLinearPatterns(value) : withLinearPatterns(value)]);
  }
  return Object.fromEntries(kept);
}

function eachWithLinearPatterns(schemas: unknown): unknown {
  if (typeof schemas !== "object" || schemas === null) return schemas;
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => [name, withLinearPatterns(schema)]),
  );
}
