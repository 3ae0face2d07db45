import { quoted } from "../core/json-text.js";
import { isJsonObject, namesOf, type Failure, type Run } from "./tool-schema-node.js";

const MAX_LISTED = 8;
const MAX_POINTER_CHARACTERS = 200;

/** A value as a message may show it: short, on one line, and for lists only their size. */
export function shortForm(value: unknown): string {
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `an array of ${String(value.length)}`;
  if (isJsonObject(value)) {
    const size = Object.keys(value).length;
    return `an object with ${String(size)} ${size === 1 ? "property" : "properties"}`;
  }
  return String(value);
}

/** A few values with a word between them: `"a", "b" or 3`; long lists are cut. */
export function listed(values: readonly unknown[], word: "or" | "and"): string {
  const shown = values.slice(0, MAX_LISTED).map(shortForm);
  if (values.length > MAX_LISTED) return `${shown.join(", ")} … (${String(values.length)} in all)`;
  const last = shown.pop() ?? "nothing";
  return shown.length === 0 ? last : `${shown.join(", ")} ${word} ${last}`;
}

/** A JSON pointer (RFC 6901) from its segments, escaped so that it stays on one line. */
export function pointerOf(segments: readonly (string | number)[]): string {
  let pointer = "";
  for (const segment of segments) {
    const escaped = String(segment).replaceAll("~", "~0").replaceAll("/", "~1");
    // Quoting escapes what a terminal could act on; the quotes themselves are not wanted.
    pointer += `/${quoted(escaped, MAX_POINTER_CHARACTERS).replace(/^"(.*)"/, "$1")}`;
  }
  if (pointer.length <= MAX_POINTER_CHARACTERS) return pointer;
  const half = MAX_POINTER_CHARACTERS / 2;
  return `${pointer.slice(0, half)}…${pointer.slice(-half)}`;
}

/** A failure as one line: `input/email: must be a string, got 42`. */
export function failureText(name: string, found: Failure): string {
  const pointer = pointerOf(found.path.toReversed());
  return `${name}${pointer}: ${found.must}, got ${shortForm(found.value)}`;
}

/** Whether two JSON values are equal, whatever the order of their members. */
export function isEqual(left: unknown, right: unknown, run: Run): boolean {
  run.charge(1);
  if (left === right) return true;
  if (Array.isArray(left)) {
    if (!Array.isArray(right) || left.length !== right.length) return false;
    return left.every((item, index) => isEqual(item, right[index], run));
  }
  if (!isJsonObject(left) || !isJsonObject(right)) return false;
  const names = namesOf(left, run);
  if (names.length !== namesOf(right, run).length) return false;
  return names.every((name) => Object.hasOwn(right, name) && isEqual(left[name], right[name], run));
}

/** A text that two JSON values share exactly when they are equal. Its length is charged. */
export function canonicalText(value: unknown, run: Run): string {
  let text: string;
  if (Array.isArray(value)) {
    text = `[${value.map((item) => canonicalText(item, run)).join(",")}]`;
  } else if (isJsonObject(value)) {
    const members = namesOf(value, run)
      .sort()
      .map((name) => `${JSON.stringify(name)}:${canonicalText(value[name], run)}`);
    text = `{${members.join(",")}}`;
  } else {
    // Numbers out of range are infinite, which JSON would write as null.
    text = typeof value === "string" ? JSON.stringify(value) : String(value === 0 ? 0 : value);
  }
  run.charge(1 + text.length);
  return text;
}
