import { TrunklineError } from "./errors.js";

/**
 * A text as it is, unless UTF-8 cannot carry it: on the wire half of a surrogate pair would silently become
 * U+FFFD, and two names one.
 *
 * @throws TrunklineError INVALID_FIELD naming `field`
 */
export function wellFormed(text: string, field: string): string {
  if (text.isWellFormed()) return text;
  throw new TrunklineError(
    "INVALID_FIELD",
    `${field}: ${JSON.stringify(text.slice(0, 40))} has half of a surrogate pair; allowed is text that UTF-8 can carry`,
    { metadata: { field } },
  );
}

/**
 * Labels as they are, copied.
 *
 * @throws TrunklineError INVALID_FIELD for a name or value that UTF-8 cannot carry
 */
export function wellFormedLabels(
  labels: Readonly<Record<string, string>>,
  field: string,
): Record<string, string> {
  for (const [name, value] of Object.entries(labels)) {
    wellFormed(name, `${field} name`);
    wellFormed(value, `${field}[${JSON.stringify(name)}]`);
  }
  return { ...labels };
}
