import {
  failure,
  isJsonObject,
  type Check,
  type Failure,
  type Run,
  type SchemaNode,
} from "./tool-schema-node.js";
import type { SchemaReader } from "./tool-schema-reader.js";
import { isEqual, listed, shortForm } from "./tool-schema-text.js";

/** Each name that `type` may have, how a message calls it, and what it accepts. */
const TYPES: Readonly<Record<string, readonly [string, (value: unknown) => boolean]>> = {
  string: ["a string", (value) => typeof value === "string"],
  number: ["a number", (value) => typeof value === "number"],
  integer: ["an integer", (value) => Number.isInteger(value)],
  boolean: ["a boolean", (value) => typeof value === "boolean"],
  null: ["null", (value) => value === null],
  array: ["an array", (value) => Array.isArray(value)],
  object: ["an object", isJsonObject],
};

function addType(schema: SchemaReader, node: SchemaNode): void {
  const value = schema.value("type");
  if (value === undefined) return;
  const names = typeof value === "string" ? [value] : schema.names("type");
  const types = (names ?? []).map((name) => {
    const type = Object.hasOwn(TYPES, name) ? TYPES[name] : undefined;
    if (type !== undefined) return type;
    const allowed = listed(Object.keys(TYPES), "or");
    throw schema.refuse("type", `must be ${allowed}, got ${shortForm(name)}`);
  });
  const [first] = types;
  if (first === undefined) throw schema.refuse("type", "must name at least one type, got none");
  const must = `must be ${types.map(([called]) => called).join(" or ")}`;
  const [, isFirst] = first;
  const accepts =
    types.length === 1 ? isFirst : (found: unknown): boolean => types.some(([, matches]) => matches(found));
  node.any.push((found) => (accepts(found) ? undefined : failure(must, found)));
}

function equalToOne(values: readonly unknown[], must: string): Check {
  const scalars = new Set(values.filter((value) => typeof value !== "object" || value === null));
  const compound = values.filter((value) => typeof value === "object" && value !== null);
  return (found, run) => {
    if (scalars.has(found)) return undefined;
    if (compound.length > 0 && typeof found === "object" && found !== null) {
      if (compound.some((value) => isEqual(value, found, run))) return undefined;
    }
    return failure(must, found, true);
  };
}

function addChoices(schema: SchemaReader, node: SchemaNode): void {
  const values = schema.list("enum");
  if (values !== undefined) {
    if (values.length === 0) throw schema.refuse("enum", "must have at least one value, got none");
    node.any.push(equalToOne(values, `must be ${listed(values, "or")}`));
  }
  if (schema.has("const")) {
    const value = schema.value("const");
    node.any.push(equalToOne([value], `must be ${shortForm(value)}`));
  }
}

/** Whether a quotient is whole, as far as binary fractions can tell (0.0075 is 75 times 0.0001). */
function isWhole(quotient: number): boolean {
  const distance = Math.abs(quotient - Math.round(quotient));
  return distance <= 2 * Number.EPSILON * Math.max(1, Math.abs(quotient));
}

function addNumbers(schema: SchemaReader, node: SchemaNode): void {
  const bound = (keyword: string, words: string, holds: (value: number, limit: number) => boolean): void => {
    const limit = schema.number(keyword);
    if (limit === undefined) return;
    const must = `must be ${words} ${String(limit)}`;
    node.numbers.push((value) => (holds(value, limit) ? undefined : failure(must, value)));
  };
  bound("minimum", "at least", (value, limit) => value >= limit);
  bound("maximum", "at most", (value, limit) => value <= limit);
  bound("exclusiveMinimum", "above", (value, limit) => value > limit);
  bound("exclusiveMaximum", "below", (value, limit) => value < limit);
  const factor = schema.number("multipleOf");
  if (factor !== undefined && factor <= 0) {
    throw schema.refuse("multipleOf", `must be above 0, got ${String(factor)}`);
  }
  bound("multipleOf", "a multiple of", (value, limit) => isWhole(value / limit));
}

/** Counts characters (code points); a text cannot have more of them than UTF-16 units. */
function characterCount(text: string, run: Run): number {
  run.charge(text.length);
  let count = 0;
  for (let at = 0; at < text.length; count++) {
    const unit = text.codePointAt(at) ?? 0;
    at += unit > 0xffff ? 2 : 1;
  }
  return count;
}

function addLengths(schema: SchemaReader, node: SchemaNode): void {
  const min = schema.count("minLength");
  if (min !== undefined && min > 0) {
    const must = `must have at least ${String(min)} characters`;
    node.strings.push((text, run) => {
      // Between min and twice min units, pairs decide.
      const isLong = text.length >= 2 * min;
      if (isLong || (text.length >= min && characterCount(text, run) >= min)) return undefined;
      return failure(must, text);
    });
  }
  const max = schema.count("maxLength");
  if (max === undefined) return;
  const must = `must have at most ${String(max)} characters`;
  node.strings.push((text, run) => {
    const isShort = text.length <= max;
    if (isShort || (text.length <= 2 * max && characterCount(text, run) <= max)) return undefined;
    return failure(must, text);
  });
}

function addPattern(schema: SchemaReader, node: SchemaNode): void {
  const source = schema.string("pattern");
  if (source === undefined) return;
  const pattern = schema.pattern("pattern", source);
  const must = `must match the pattern ${shortForm(source)}`;
  node.strings.push((text, run): Failure | undefined =>
    pattern.test(text, run) ? undefined : failure(must, text),
  );
}

/** Adds the keywords that look at a value as one thing: type, enum, const, numbers and strings. */
export function addScalarKeywords(schema: SchemaReader, node: SchemaNode): void {
  addType(schema, node);
  addChoices(schema, node);
  addNumbers(schema, node);
  addLengths(schema, node);
  addPattern(schema, node);
}
