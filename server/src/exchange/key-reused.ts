import { TrunklineError } from "../core/error.js";

/** The names of what is not the same. */
export function differing(isSame: Readonly<Record<string, boolean>>): string[] {
  return Object.entries(isSame).flatMap(([name, same]) => (same ? [] : [name]));
}

/** Says that a key names something with other content, and what of it is another. */
export function keyReused(
  key: string,
  there: string,
  differing: readonly string[],
  metadata: Readonly<Record<string, string>> = {},
): TrunklineError {
  return new TrunklineError(
    "KEY_REUSED",
    `key ${JSON.stringify(key)} names ${there} with another ${differing.join(", ")}; what is sent again must be the same`,
    { metadata: { field: "key", differing: differing.join(","), ...metadata } },
  );
}
