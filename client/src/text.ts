import { TrunklineError } from "./errors.js";

/**
 * A name that is given: what JavaScript passes may be undefined or anything else.
 *
 * @throws TrunklineError INVALID_FIELD naming `field` for what is no text, or empty
 */
export function present(value: unknown, field: string): string {
  if (typeof value === "string" && value !== "") return value;
  const seen = value === "" ? "it is empty" : `${typeOf(value)} is not a text`;
  throw new TrunklineError("INVALID_FIELD", `${field}: ${seen}; allowed is a text that is not empty`, {
    metadata: { field },
  });
}

/** What a value is, for messages: never the value itself, which may be a secret. */
export function typeOf(value: unknown): string {
  return value === null || value === undefined ? String(value) : typeof value;
}

/**
 * A text as it is, unless UTF-8 cannot carry it: on the wire half of a surrogate pair would silently become
 * U+FFFD, and two names one.
 *
 * @throws TrunklineError INVALID_FIELD naming `field`
 */
export function wellFormed(text: string, field: string): string {
  const given: unknown = text;
  if (typeof given !== "string") {
    throw new TrunklineError("INVALID_FIELD", `${field}: ${typeOf(given)} is not a text; allowed is text`, {
      metadata: { field },
    });
  }
  if (text.isWellFormed()) return text;
  throw new TrunklineError(
    "INVALID_FIELD",
    `${field}: ${JSON.stringify(text.slice(0, 40))} has half of a surrogate pair; allowed is text that UTF-8 can carry`,
    { metadata: { field } },
  );
}

const encoder = new TextEncoder();

/** How many bytes a text takes in UTF-8. */
export function utf8Bytes(text: string): number {
  return encoder.encode(text).length;
}

/**
 * Labels as they are, copied.
 *
 * @throws TrunklineError INVALID_FIELD for what is no object, and a name or value that UTF-8 cannot carry
 */
export function wellFormedLabels(
  labels: Readonly<Record<string, string>>,
  field: string,
): Record<string, string> {
  const given: unknown = labels;
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    const seen = Array.isArray(given) ? "array" : typeOf(given);
    throw new TrunklineError("INVALID_FIELD", `${field}: ${seen} is not labels; allowed is { name: value }`, {
      metadata: { field },
    });
  }
  for (const [name, value] of Object.entries(labels)) {
    wellFormed(name, `${field} name`);
    wellFormed(value, `${field}[${JSON.stringify(name)}]`);
  }
  return { ...labels };
}
