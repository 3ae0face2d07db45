import { failure, under, type SchemaNode } from "./tool-schema-node.js";
import type { SchemaReader } from "./tool-schema-reader.js";
import { canonicalText } from "./tool-schema-text.js";

function addCounts(schema: SchemaReader, node: SchemaNode): void {
  const min = schema.count("minItems");
  const max = schema.count("maxItems");
  if (min !== undefined) {
    const must = `must have at least ${String(min)} items`;
    node.arrays.push((value) => (value.length >= min ? undefined : failure(must, value)));
  }
  if (max !== undefined) {
    const must = `must have at most ${String(max)} items`;
    node.arrays.push((value) => (value.length <= max ? undefined : failure(must, value)));
  }
}

function addUnique(schema: SchemaReader, node: SchemaNode): void {
  if (!schema.flag("uniqueItems")) return;
  node.arrays.push((value, run) => {
    const seen = new Set<string>();
    for (const [index, item] of value.entries()) {
      const text = canonicalText(item, run);
      if (seen.has(text)) return under(index, failure("must differ from the items before", item));
      seen.add(text);
    }
    return undefined;
  });
}

/** The schemas of the first items, and that of the others, in either way of writing them. */
function itemSchemas(schema: SchemaReader): {
  readonly first: readonly SchemaNode[];
  readonly others: SchemaNode | undefined;
} {
  // Before 2020-12, `items` was an array where it is `prefixItems` now.
  if (Array.isArray(schema.value("items"))) {
    return { first: schema.nodes("items") ?? [], others: schema.node("additionalItems") };
  }
  return { first: schema.nodes("prefixItems") ?? [], others: schema.node("items") };
}

function addItems(schema: SchemaReader, node: SchemaNode): void {
  const { first, others } = itemSchemas(schema);
  if (first.length === 0 && others === undefined) return;
  node.arrays.push((value, run, evaluated) => {
    const count = others === undefined ? Math.min(first.length, value.length) : value.length;
    for (let index = 0; index < count; index++) {
      const found = (first[index] ?? others)?.check(value[index], run, undefined);
      if (found !== undefined) return under(index, found);
    }
    evaluated?.addItemsBefore(count);
    return undefined;
  });
}

function addContains(schema: SchemaReader, node: SchemaNode): void {
  const wanted = schema.node("contains");
  const min = schema.count("minContains") ?? 1;
  const max = schema.count("maxContains");
  if (wanted === undefined) return;
  node.arrays.push((value, run, evaluated) => {
    let count = 0;
    for (const [index, item] of value.entries()) {
      if (wanted.check(item, run, undefined) !== undefined) continue;
      count++;
      evaluated?.indexes.add(index);
    }
    if (count < min) return failure(`must contain at least ${String(min)} items of a kind`, value);
    if (max === undefined || count <= max) return undefined;
    return failure(`must contain at most ${String(max)} items of a kind`, value);
  });
}

function addUnevaluated(schema: SchemaReader, node: SchemaNode): void {
  const rest = schema.node("unevaluatedItems");
  if (rest === undefined) return;
  const isClosed = schema.value("unevaluatedItems") === false;
  node.last.push((value, run, evaluated) => {
    if (!Array.isArray(value)) return undefined;
    for (let index = evaluated?.itemsBefore ?? 0; index < value.length; index++) {
      run.charge(1);
      if (evaluated?.indexes.has(index) === true) continue;
      const item: unknown = value[index];
      const found = isClosed
        ? failure("is an item that no part of the schema allows", item)
        : rest.check(item, run, undefined);
      if (found !== undefined) return under(index, found);
    }
    evaluated?.addItemsBefore(value.length);
    return undefined;
  });
}

/** Adds the keywords of arrays. */
export function addArrayKeywords(schema: SchemaReader, node: SchemaNode): void {
  addCounts(schema, node);
  addUnique(schema, node);
  addItems(schema, node);
  addContains(schema, node);
  addUnevaluated(schema, node);
}
