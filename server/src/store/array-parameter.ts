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
  const [first] = values;
  if (isUniform(values)) return repeated(numberElement(first), values.length);
  return `{${values.map(numberElement).join(",")}}`;
}

/** `boolean[]`. */
export function booleanArray(values: readonly boolean[]): string {
  return `{${values.map((value) => (value ? "t" : "f")).join(",")}}`;
}

/** `text[]`, and any type whose elements are sent as text: `uuid[]`, arrays of enums. */
export function textArray(values: readonly (string | null)[]): string {
  const [first] = values;
  if (isUniform(values)) return repeated(textElement(first), values.length);
  // A text for each element would be more than all the rest.
  if (values.length > 0 && values.every(isPlain)) return `{"${values.join('","')}"}`;
  return `{${values.map(textElement).join(",")}}`;
}

function numberElement(value: number | null | undefined): number | string {
  return value ?? "NULL";
}

function textElement(value: string | null | undefined): string {
  if (value === null || value === undefined) return "NULL";
  return `"${isPlain(value) ? value : value.replace(ALL_SPECIAL, "\\$&")}"`;
}

function isPlain(value: string | null | undefined): boolean {
  return typeof value === "string" && !SPECIAL.test(value);
}

/** Whether all elements are the same one, as in most columns of most batches. */
function isUniform(values: readonly unknown[]): boolean {
  const [first] = values;
  return values.length > 1 && values.every((value) => value === first);
}

function repeated(element: number | string, times: number): string {
  return `{${`${element},`.repeat(times - 1)}${element}}`;
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
