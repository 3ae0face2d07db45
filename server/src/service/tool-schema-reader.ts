import { TrunklineError } from "../core/error.js";
import { quoted } from "../core/json-text.js";
import { isJsonObject, type JsonObject, type SchemaNode } from "./tool-schema-node.js";
import { SchemaPattern } from "./tool-schema-pattern.js";
import { pointerOf, shortForm } from "./tool-schema-text.js";

/** What the patterns of one schema may measure together, in instructions of the engine. */
const MAX_PATTERN_SIZE = 5_000;

/** What a schema's keywords need from the whole that they are part of. */
export interface SchemaContext {
  /** The tool and field that messages name. */
  readonly where: string;
  /** The node of a schema that stands at `place`, made when it is not known yet. */
  node(schema: unknown, place: string): SchemaNode;
  /** The node that a `$ref` at `place` leads to. */
  resolve(ref: string, place: string): SchemaNode;
  /** Instructions of all patterns so far. */
  patternSize: number;
}

/** Refuses a schema: `where` and `place` say which part of which, `why` what is allowed there. */
export function refuseSchema(where: string, place: string, why: string): TrunklineError {
  return new TrunklineError("SCHEMA_VIOLATION", `${where} at ${place}: ${why}`, {
    metadata: { field: where, place },
  });
}

/**
 * Reads one schema's keywords. Each method gives `undefined` when the keyword is absent and refuses
 * a value that it cannot have.
 */
export class SchemaReader {
  private readonly schema: JsonObject;
  private readonly place: string;
  private readonly context: SchemaContext;

  constructor(schema: JsonObject, place: string, context: SchemaContext) {
    this.schema = schema;
    this.place = place;
    this.context = context;
  }

  /** The keyword's value as it stands. Only the schema's own members are keywords. */
  value(keyword: string): unknown {
    return Object.hasOwn(this.schema, keyword) ? this.schema[keyword] : undefined;
  }

  has(keyword: string): boolean {
    return Object.hasOwn(this.schema, keyword);
  }

  refuse(keyword: string, why: string): TrunklineError {
    return refuseSchema(this.context.where, this.placeOf(keyword), why);
  }

  number(keyword: string): number | undefined {
    const value = this.value(keyword);
    if (value === undefined || (typeof value === "number" && Number.isFinite(value))) return value;
    throw this.refuse(keyword, `must be a number, got ${shortForm(value)}`);
  }

  count(keyword: string): number | undefined {
    const value = this.value(keyword);
    if (value === undefined) return undefined;
    if (typeof value === "number" && Number.isInteger(value) && value >= 0) return value;
    throw this.refuse(keyword, `must be a whole number from 0, got ${shortForm(value)}`);
  }

  flag(keyword: string): boolean {
    const value = this.value(keyword);
    if (value === undefined || typeof value === "boolean") return value ?? false;
    throw this.refuse(keyword, `must be true or false, got ${shortForm(value)}`);
  }

  string(keyword: string): string | undefined {
    const value = this.value(keyword);
    if (value === undefined || typeof value === "string") return value;
    throw this.refuse(keyword, `must be a string, got ${shortForm(value)}`);
  }

  list(keyword: string): readonly unknown[] | undefined {
    const value = this.value(keyword);
    if (value === undefined) return undefined;
    if (isList(value)) return value;
    throw this.refuse(keyword, `must be an array, got ${shortForm(value)}`);
  }

  names(keyword: string): readonly string[] | undefined {
    const list = this.list(keyword);
    return list === undefined ? undefined : this.allStrings(keyword, list);
  }

  /** Every item of `list` as a string, or refuses `keyword`. */
  allStrings(keyword: string, list: readonly unknown[]): readonly string[] {
    return list.map((item) => {
      if (typeof item === "string") return item;
      throw this.refuse(keyword, `must be an array of strings, got ${shortForm(item)} in it`);
    });
  }

  node(keyword: string): SchemaNode | undefined {
    const value = this.value(keyword);
    return value === undefined ? undefined : this.context.node(value, this.placeOf(keyword));
  }

  /** The nodes of an array of schemas, at least one. */
  nodes(keyword: string): readonly SchemaNode[] | undefined {
    const list = this.list(keyword);
    if (list === undefined) return undefined;
    if (list.length === 0) throw this.refuse(keyword, "must have at least one schema, got none");
    return list.map((item, index) => this.context.node(item, this.placeOf(keyword, index)));
  }

  /** The members of an object whose values are read one by one. */
  members(keyword: string): readonly (readonly [string, unknown])[] {
    const value = this.value(keyword);
    if (value === undefined) return [];
    if (!isJsonObject(value)) {
      throw this.refuse(keyword, `must be an object, got ${shortForm(value)}`);
    }
    return Object.entries(value);
  }

  /** The nodes of an object whose values are schemas. */
  namedNodes(keyword: string): readonly (readonly [string, SchemaNode])[] {
    return this.members(keyword).map(([name, schema]) => [name, this.member(keyword, name, schema)]);
  }

  /** The node of one member of an object whose values are schemas. */
  member(keyword: string, name: string, schema: unknown): SchemaNode {
    return this.context.node(schema, this.placeOf(keyword, name));
  }

  /** A pattern for the linear-time engine. */
  pattern(keyword: string, source: string): SchemaPattern {
    let pattern: SchemaPattern;
    try {
      pattern = new SchemaPattern(source);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw this.refuse(
        keyword,
        `${quoted(source)} is not a pattern that runs in linear time (${quoted(reason, 120)}); ` +
          "allowed is RE2 syntax, without lookaround, backreferences and repeats above 1000",
      );
    }
    this.context.patternSize += pattern.size;
    if (this.context.patternSize <= MAX_PATTERN_SIZE) return pattern;
    throw this.refuse(
      keyword,
      `the schema's patterns have ${String(this.context.patternSize)} instructions with this one; ` +
        `allowed are ${String(MAX_PATTERN_SIZE)} (a repeat counts its part that many times)`,
    );
  }

  /** The node that this schema's `$ref` leads to. */
  reference(): SchemaNode | undefined {
    const ref = this.string("$ref");
    return ref === undefined ? undefined : this.context.resolve(ref, this.placeOf("$ref"));
  }

  private placeOf(...segments: readonly (string | number)[]): string {
    return `${this.place}${pointerOf(segments)}`;
  }
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}
