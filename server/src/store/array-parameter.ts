/**
 * Arrays as PostgreSQL reads them, for parameters that are unnested. The driver's own encoding escapes every
 * element by two regular expressions, which is most of a batch's cost; here text is looked at first, and JSON,
 * which is full of quotes, is sent in the binary form, which escapes nothing.
 */

const SPECIAL = /["\\]/;
const ALL_SPECIAL = /["\\]/g;

const JSON_OID = 114;
const INT_BYTES = 4;
const HEADER_FIELDS = 5;

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

/** `text[]`, and any type whose elements are sent as text: `uuid[]`, arrays of enums. */
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

/** `json[]`. */
export function jsonArray(values: readonly (string | null)[]): Buffer {
  let size = HEADER_FIELDS * INT_BYTES;
  for (const value of values) size += INT_BYTES + (value === null ? 0 : Buffer.byteLength(value));
  const bytes = Buffer.allocUnsafe(size);
  let at = bytes.writeInt32BE(1, 0); // dimensions
  at = bytes.writeInt32BE(1, at); // may hold nulls
  at = bytes.writeInt32BE(JSON_OID, at);
  at = bytes.writeInt32BE(values.length, at);
  at = bytes.writeInt32BE(1, at); // the first place
  for (const value of values) {
    const length = value === null ? -1 : bytes.write(value, at + INT_BYTES);
    at = bytes.writeInt32BE(length, at) + Math.max(0, length);
  }
  return bytes;
}

/**
 * Payloads as two parameters: a `json[]`, and a `json` that takes its place where there is but one, which
 * PostgreSQL then copies less often.
 */
export function jsonParameters(
  values: readonly (string | null)[],
): [array: string | Buffer, only: string | null] {
  const [only = null] = values;
  return values.length === 1 ? ["{NULL}", only] : [jsonArray(values), null];
}
