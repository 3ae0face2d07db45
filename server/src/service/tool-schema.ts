import { TrunklineError } from "../core/error.js";
import { parseJsonText } from "../core/json-text.js";
import { LIMITS } from "../core/limits.js";
import { compileSchema } from "./tool-schema-compiler.js";
import { Run, TooMuchWork, type SchemaNode } from "./tool-schema-node.js";
import { failureText } from "./tool-schema-text.js";

/**
 * A tool's JSON Schema, ready to check inputs or outputs. It is interpreted: nothing of it ever
 * becomes code, its patterns run in linear time, and a check that costs too much is given up.
 */
export class ToolSchema {
  private readonly root: SchemaNode;

  /** Made by {@link compileToolSchema}. */
  constructor(root: SchemaNode) {
    this.root = root;
  }

  /**
   * Checks a parsed value.
   *
   * @param name what the value is called in the message
   * @returns `undefined` when it is valid, else the first fault in one line, with the JSON pointer
   *   to it and what is allowed there: `input/email: must be a string, got 42`
   */
  check(value: unknown, name = "input"): string | undefined {
    try {
      const found = this.root.check(value, new Run(), undefined);
      return found === undefined ? undefined : failureText(name, found);
    } catch (error) {
      if (error instanceof TooMuchWork) return `${name}: ${error.message}`;
      throw error;
    }
  }
}

/**
 * Reads a tool's JSON Schema: dialect 2020-12 unless `$schema` says 2019-09, draft-07 or draft-06;
 * keywords of each are understood in all.
 *
 * - `$ref` leads to places and anchors of the same schema only; `$dynamicRef` and `$recursiveRef`
 *   are refused, and so is a reference that leads back to itself at the same value.
 * - `pattern` and `patternProperties` are RE2 syntax; what an engine without backtracking cannot
 *   run (lookaround, backreferences) is refused. `\d`, `\w`, `\s` and `\b` are ASCII.
 * - `format`, `contentEncoding` and their like are annotations, as 2020-12 has it: they are kept for
 *   readers and check nothing. Unknown keywords are ignored.
 * - Numbers are checked as JavaScript has them, so digits beyond 2^53 do not count.
 *
 * @param where the tool and field, for messages: `tool "crm.find": input_schema`
 * @throws TrunklineError SCHEMA_VIOLATION naming `where`, the place in the schema and what is
 *   allowed, also above 64 KiB or 32 levels; INVALID_JSON for a text that is not JSON
 */
export function compileToolSchema(schemaText: string, where: string): ToolSchema {
  return new ToolSchema(compileSchema(parseSchemaText(schemaText, where), where));
}

function parseSchemaText(schemaText: string, where: string): unknown {
  try {
    return parseJsonText(schemaText, where, {
      maxBytes: LIMITS.toolSchemaBytes,
      maxDepth: LIMITS.toolSchemaDepth,
    });
  } catch (error) {
    if (!(error instanceof TrunklineError) || error.reason !== "LIMIT_EXCEEDED") throw error;
    throw new TrunklineError("SCHEMA_VIOLATION", error.message, { metadata: error.metadata });
  }
}
