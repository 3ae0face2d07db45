import {
  Evaluated,
  failure,
  type Check,
  type Failure,
  type Run,
  type SchemaNode,
} from "./tool-schema-node.js";
import type { SchemaReader } from "./tool-schema-reader.js";

/** Above this, alternatives are counted in a message and no longer listed. */
const MAX_LISTED = 4;

/** What telling how no alternative fits costs; nested alternatives tell it again and again. */
const UNITS_PER_TELLING = 100;

/**
 * What to say when no alternative fits: all of them when each refused the value itself, else the
 * one that was probably meant, which is the one whose fault lies deepest.
 */
function nearest(failures: readonly Failure[], value: unknown, run: Run): Failure {
  run.charge(UNITS_PER_TELLING);
  const count = failures.length;
  if (count <= MAX_LISTED && failures.every(({ path }) => path.length === 0)) {
    return failure([...new Set(failures.map(({ must }) => must))].join(" or "), value);
  }
  const rank = (found: Failure): number => 2 * found.path.length + (found.isChoice ? 0 : 1);
  const best = failures.reduce((left, right) => (rank(right) > rank(left) ? right : left));
  return { ...best, must: `${best.must} (as the nearest of ${String(count)} alternatives)` };
}

/** Where an alternative reports what it looked at, until it is known to hold. */
function ownOf(evaluated: Evaluated | undefined): Evaluated | undefined {
  return evaluated === undefined ? undefined : new Evaluated();
}

/** Keeps what an alternative that holds has looked at. */
function keep(own: Evaluated | undefined, evaluated: Evaluated | undefined, run: Run): void {
  if (own !== undefined) evaluated?.addAll(own, run);
}

function anyOf(nodes: readonly SchemaNode[]): Check {
  return (value, run, evaluated) => {
    const failures: Failure[] = [];
    for (const node of nodes) {
      const own = ownOf(evaluated);
      const found = node.check(value, run, own);
      if (found !== undefined) {
        failures.push(found);
        continue;
      }
      // Those after one that holds matter only where somebody asks what they looked at.
      if (evaluated === undefined) return undefined;
      keep(own, evaluated, run);
    }
    return failures.length < nodes.length ? undefined : nearest(failures, value, run);
  };
}

function oneOf(nodes: readonly SchemaNode[]): Check {
  return (value, run, evaluated) => {
    const failures: Failure[] = [];
    const holding: number[] = [];
    for (const [index, node] of nodes.entries()) {
      const own = ownOf(evaluated);
      const found = node.check(value, run, own);
      if (found !== undefined) {
        failures.push(found);
        continue;
      }
      keep(own, evaluated, run);
      holding.push(index);
      if (holding.length > 1) {
        const both = holding.map((held) => `#${String(held + 1)}`).join(" and ");
        const must = `must match exactly one of ${String(nodes.length)} alternatives, not both ${both}`;
        return failure(must, value);
      }
    }
    return holding.length === 1 ? undefined : nearest(failures, value, run);
  };
}

function addCondition(schema: SchemaReader, node: SchemaNode): void {
  const condition = schema.node("if");
  const then = schema.node("then");
  const otherwise = schema.node("else");
  if (condition === undefined) return;
  for (const part of [condition, then, otherwise]) if (part !== undefined) node.inPlace.push(part);
  node.any.push((value, run, evaluated) => {
    const own = ownOf(evaluated);
    const holds = condition.check(value, run, own) === undefined;
    if (holds) keep(own, evaluated, run);
    return (holds ? then : otherwise)?.check(value, run, evaluated);
  });
}

/** Adds `$ref`. */
export function addReference(schema: SchemaReader, node: SchemaNode): void {
  const target = schema.reference();
  if (target === undefined) return;
  node.inPlace.push(target);
  node.any.push((value, run, evaluated) => target.check(value, run, evaluated));
}

/** Adds the keywords that apply other schemas to the same value. */
export function addCombinators(schema: SchemaReader, node: SchemaNode): void {
  const all = schema.nodes("allOf") ?? [];
  for (const part of all) node.any.push((value, run, seen) => part.check(value, run, seen));
  const any = schema.nodes("anyOf") ?? [];
  if (any.length > 0) node.any.push(anyOf(any));
  const one = schema.nodes("oneOf") ?? [];
  if (one.length > 0) node.any.push(oneOf(one));
  node.inPlace.push(...all, ...any, ...one);
  const not = schema.node("not");
  if (not !== undefined) {
    node.inPlace.push(not);
    node.any.push((value, run) =>
      not.check(value, run, undefined) === undefined
        ? failure("must not be what the schema excludes", value)
        : undefined,
    );
  }
  addCondition(schema, node);
}
