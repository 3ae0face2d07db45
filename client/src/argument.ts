import { TrunklineError } from "./errors.js";
import { typeOf } from "./text.js";

/*
 * Checks of what callers in JavaScript pass. What the wire cannot carry has to be refused where it is given: a
 * frame that cannot be written ends its stream, with everything else that was in it.
 */

/** The largest number of an attempt, a turn, a version: they rest in signed columns. */
export const MAX_WHOLE = 2 ** 31 - 1;

/** The error of an argument that is outside what it allows. */
export function refuseArgument(field: string, seen: string, allowed: string): TrunklineError {
  return new TrunklineError("INVALID_FIELD", `${field}: ${seen}; ${allowed}`, { metadata: { field } });
}

/**
 * A whole number from `min` to `max`.
 *
 * @throws TrunklineError INVALID_FIELD naming `field`
 */
export function whole(value: number, field: string, min: number, max: number): number {
  const given: unknown = value;
  if (typeof given === "number" && Number.isInteger(given) && given >= min && given <= max) return given;
  const seen = typeof given === "number" ? String(given) : `${typeOf(given)} is not a number`;
  throw refuseArgument(field, seen, `allowed are whole numbers from ${min} to ${max}`);
}

/**
 * A boolean; a text such as "no" would count as true.
 *
 * @throws TrunklineError INVALID_FIELD naming `field`
 */
export function flag(value: boolean, field: string): boolean {
  const given: unknown = value;
  if (typeof given === "boolean") return given;
  throw refuseArgument(field, `${typeOf(given)} is not a boolean`, "allowed are true, false");
}

/**
 * What a table has for one of its names.
 *
 * @throws TrunklineError INVALID_FIELD naming `field` for any other name
 */
export function oneOf<Name extends string, Value>(
  table: Readonly<Record<Name, Value>>,
  name: Name,
  field: string,
): Value {
  const given: unknown = name;
  if (typeof given === "string" && Object.hasOwn(table, given)) return table[name];
  const seen = typeof given === "string" ? JSON.stringify(given) : typeOf(given);
  throw refuseArgument(field, seen, allowedNames(table));
}

const allowedNames = (table: object): string => `allowed are ${Object.keys(table).join(", ")}`;

/**
 * Refuses what is no object, and an object with fields that do not exist: a misspelt limit or key must not be
 * silently none.
 *
 * @param fields all that exist
 * @throws TrunklineError INVALID_FIELD naming `field`
 */
export function onlyFields(
  given: object | undefined,
  fields: Readonly<Record<string, true>>,
  field: string,
): void {
  const value: unknown = given;
  if (typeof value !== "object" || value === null) {
    throw refuseArgument(field, `${typeOf(value)} is not an object`, allowedNames(fields));
  }
  for (const name of Object.keys(value)) {
    if (!Object.hasOwn(fields, name)) throw refuseArgument(field, JSON.stringify(name), allowedNames(fields));
  }
}

/**
 * Refuses what is no abort signal, before anything listens to it.
 *
 * @throws TrunklineError INVALID_FIELD
 */
export function checkSignal(signal: AbortSignal | undefined): void {
  // Not by `instanceof` alone: a signal of another realm is one as well.
  const given: unknown = signal;
  if (given === undefined) return;
  if (typeof given === "object" && given !== null && "aborted" in given && "addEventListener" in given)
    return;
  throw refuseArgument("signal", `${typeOf(given)} is not an AbortSignal`, "allowed is an AbortSignal");
}
