/** JSON text that stands in a document as it is, digit for digit. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** What a document for machines is made of. */
export type Json =
  string | number | boolean | null | JsonText | readonly Json[] | { readonly [name: string]: Json };

/** Payload text as part of a document; null when there is none. */
export function jsonText(text: string | undefined): JsonText | null {
  return text === undefined ? null : new JsonText(text);
}

/** A moment as documents have it: ISO 8601 in UTC; null when it has not come. */
export function jsonTime(at: Date | undefined): string | null {
  return at === undefined ? null : at.toISOString();
}

/** Writes a document on one line. */
export function writeJson(value: Json): string {
  // Line breaks in JSON text stand between tokens only, where a blank means the same.
  if (value instanceof JsonText) return value.text.replace(/[\r\n]+/g, " ");
  if (isList(value)) return `[${value.map(writeJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).map(([name, field]) => `${JSON.stringify(name)}:${writeJson(field)}`);
  return `{${fields.join(",")}}`;
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}
