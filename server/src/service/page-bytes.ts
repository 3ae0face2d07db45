import { byteLength } from "../core/json-text.js";

/** A field's tag and length, twice: a label is a message of its own. */
const LABEL_BYTES = 10;

/** What texts take of a page together. */
export function textBytes(...texts: readonly (string | null)[]): number {
  let bytes = 0;
  for (const text of texts) if (text !== null) bytes += byteLength(text);
  return bytes;
}

/** What labels take of a page: of a run with many, more than all else that is said of one of its calls. */
export function labelBytes(labels: Readonly<Record<string, string>>): number {
  let bytes = 0;
  for (const [name, value] of Object.entries(labels)) bytes += LABEL_BYTES + textBytes(name, value);
  return bytes;
}
