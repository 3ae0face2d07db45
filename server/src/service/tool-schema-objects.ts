import {
  failure,
  isJsonObject,
  namesOf,
  under,
  type Check,
  type JsonObject,
  type SchemaNode,
} from "./tool-schema-node.js";
import type { SchemaPattern } from "./tool-schema-pattern.js";
import type { SchemaReader } from "./tool-schema-reader.js";
import { listed, shortForm } from "./tool-schema-text.js";

function addCounts(schema: SchemaReader, node: SchemaNode): void {
  const min = schema.count("minProperties");
  const max = schema.count("maxProperties");
  if (min === undefined && max === undefined) return;
  node.objects.push((value, run) => {
    const size = namesOf(value, run).length;
    if (min !== undefined && size < min) {
      return failure(`must have at least ${String(min)} properties`, value);
    }
    if (max !== undefined && size > max) {
      return failure(`must have at most ${String(max)} properties`, value);
    }
    return undefined;
  });
}

/** Every one of `names` must be there. */
function requireAll(names: readonly string[]): Check<JsonObject> {
  return (value, run) => {
    run.charge(names.length);
    for (const name of names) {
      if (!Object.hasOwn(value, name)) {
        return failure(`must have the property ${shortForm(name)}`, value);
      }
    }
    return undefined;
  };
}

/** `properties` alone, which looks only at what it names. */
function namedOnly(named: readonly (readonly [string, SchemaNode])[]): Check<JsonObject> {
  return (value, run, evaluated) => {
    run.charge(named.length);
    for (const [name, node] of named) {
      if (!Object.hasOwn(value, name)) continue;
      const found = node.check(value[name], run, undefined);
      if (found !== undefined) return under(name, found);
      evaluated?.names.add(name);
    }
    return undefined;
  };
}

interface MemberRules {
  readonly named: ReadonlyMap<string, SchemaNode>;
  readonly patterns: readonly (readonly [SchemaPattern, SchemaNode])[];
  readonly additional: SchemaNode | undefined;
  /** Set when nothing additional is allowed: what to say then. */
  readonly closed: string | undefined;
}

/** `properties`, `patternProperties` and `additionalProperties`, which looks at every member. */
function everyMember(rules: MemberRules): Check<JsonObject> {
  const { named, patterns, additional, closed } = rules;
  return (value, run, evaluated) => {
    for (const name of namesOf(value, run)) {
      const member = value[name];
      const node = named.get(name);
      let found = node?.check(member, run, undefined);
      let isKnown = node !== undefined;
      for (const [pattern, patternNode] of patterns) {
        if (!pattern.test(name, run)) continue;
        isKnown = true;
        found ??= patternNode.check(member, run, undefined);
      }
      if (!isKnown && closed !== undefined) found = failure(closed, member);
      if (!isKnown && additional !== undefined) found ??= additional.check(member, run, undefined);
      if (found !== undefined) return under(name, found);
      if (isKnown || additional !== undefined) evaluated?.names.add(name);
    }
    return undefined;
  };
}

function addMembers(schema: SchemaReader, node: SchemaNode): void {
  const named = schema.namedNodes("properties");
  const patterns = schema
    .members("patternProperties")
    .map(
      ([source, member]) =>
        [
          schema.pattern("patternProperties", source),
          schema.member("patternProperties", source, member),
        ] as const,
    );
  const additional = schema.node("additionalProperties");
  if (patterns.length === 0 && additional === undefined) {
    if (named.length > 0) node.objects.push(namedOnly(named));
    return;
  }
  const allowed = named.map(([name]) => name);
  const words = patterns.length > 0 ? "allowed are some patterns and" : "allowed are";
  const closed =
    schema.value("additionalProperties") === false
      ? `is not an allowed property (${words} ${listed(allowed, "and")})`
      : undefined;
  node.objects.push(everyMember({ named: new Map(named), patterns, additional, closed }));
}

function addNames(schema: SchemaReader, node: SchemaNode): void {
  const names = schema.node("propertyNames");
  if (names === undefined) return;
  node.objects.push((value, run) => {
    for (const name of namesOf(value, run)) {
      const found = names.check(name, run, undefined);
      if (found !== undefined) return { ...found, must: `has a property whose name ${found.must}` };
    }
    return undefined;
  });
}

function addDependency(node: SchemaNode, name: string, rule: Check<JsonObject>): void {
  node.objects.push((value, run, evaluated) =>
    Object.hasOwn(value, name) ? rule(value, run, evaluated) : undefined,
  );
}

/** Draft-07's `dependencies` is either of its two successors, member by member. */
function addDependencies(schema: SchemaReader, node: SchemaNode): void {
  for (const keyword of ["dependentRequired", "dependentSchemas", "dependencies"]) {
    for (const [name, rule] of schema.members(keyword)) {
      if (keyword !== "dependentSchemas" && Array.isArray(rule)) {
        addDependency(node, name, requireAll(schema.allStrings(keyword, rule)));
      } else if (keyword !== "dependentRequired") {
        const dependent = schema.member(keyword, name, rule);
        node.inPlace.push(dependent);
        addDependency(node, name, (value, run, evaluated) => dependent.check(value, run, evaluated));
      } else {
        throw schema.refuse(keyword, `must have arrays of names, got ${shortForm(rule)}`);
      }
    }
  }
}

function addUnevaluated(schema: SchemaReader, node: SchemaNode): void {
  const rest = schema.node("unevaluatedProperties");
  if (rest === undefined) return;
  const isClosed = schema.value("unevaluatedProperties") === false;
  node.last.push((value, run, evaluated) => {
    if (!isJsonObject(value)) return undefined;
    for (const name of namesOf(value, run)) {
      if (evaluated?.names.has(name) === true) continue;
      const found = isClosed
        ? failure("is a property that no part of the schema allows", value[name])
        : rest.check(value[name], run, undefined);
      if (found !== undefined) return under(name, found);
      evaluated?.names.add(name);
    }
    return undefined;
  });
}

/** Adds the keywords of objects. */
export function addObjectKeywords(schema: SchemaReader, node: SchemaNode): void {
  addCounts(schema, node);
  const required = schema.names("required");
  if (required !== undefined && required.length > 0) node.objects.push(requireAll(required));
  addMembers(schema, node);
  addNames(schema, node);
  addDependencies(schema, node);
  addUnevaluated(schema, node);
}
