/**
 * Arrays as PostgreSQL writes them in text, for parameters that are unnested. The driver's own encoding
 * escapes every element by two regular expressions, which is most of a batch's cost; this one looks first.
 */

const SPECIAL = /["\\]/;
const ALL_SPECIAL = /["\\]/g;

/** `integer[]` and `bigint[]`. */
export function numberArray(values: readonly (number | null)[]): string {
  let text = "{";
  for (let index = 0; index < values.length; index++) {
    if (index > 0) text += ",";
    text += String(values[index] ?? "NULL");
  }
  return `${text}}`;
}

/** `boolean[]`. */
export function booleanArray(values: readonly boolean[]): string {
  return `{${values.map((value) => (value ? "t" : "f")).join(",")}}`;
}

/** `text[]`, and any type whose elements are sent as text: `uuid[]`, `json[]`, arrays of enums. */
export function textArray(values: readonly (string | null)[]): string {
  let text = "{";
  for (let index = 0; index < values.length; index++) {
    if (index > 0) text += ",";
    const value = values[index];
    if (value === null || value === undefined) text += "NULL";
    else text += `"${SPECIAL.test(value) ? value.replace(ALL_SPECIAL, "\\$&") : value}"`;
  }
  return `${text}}`;
}
