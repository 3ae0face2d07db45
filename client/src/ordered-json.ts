import { LIMITS } from "./limits.js";

/**
 * The same JSON with its keys in their order, so that equal values are equal texts. What is no plain object (a date, raw
 * JSON) stays as it is, and so does what nests deeper than JSON may: it is refused when it is written.
 */
export function ordered(value: unknown, depth = 0): unknown {
  if (depth > LIMITS.jsonDepth) return value;
  if (Array.isArray(value)) return value.map((item) => ordered(item, depth + 1));
  if (!isPlain(value)) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, ordered(item, depth + 1)]));
}

/** Also of another realm, as in a test runner's. */
function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
