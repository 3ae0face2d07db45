import { endOfString } from "./json-text.js";

/** A member of a JSON object, as it is written there. */
export interface JsonMember {
  /** With its escapes undone. */
  readonly name: string;
  /** The value's text, digit for digit, without the space around it. */
  readonly text: string;
}

const SPACE = /[ \t\n\r]*/y;
/** What a number, `true`, `false` or `null` is made of. */
const WORD = /[-+.0-9A-Za-z]*/y;

/**
 * The members of an object in their order, duplicates too; undefined when the value is no object. Takes linear time
 * and no stack.
 *
 * @param text one JSON value (RFC 8259); of a text that is none it says something
 */
export function jsonMembers(text: string): JsonMember[] | undefined {
  let at = after(SPACE, text, 0);
  if (text[at] !== "{") return undefined;
  at = after(SPACE, text, at + 1);
  const members: JsonMember[] = [];
  while (text[at] === '"') {
    const end = endOfString(text, at) + 1;
    const name = String(JSON.parse(text.slice(at, end)));
    // Nothing but space and the colon is between them.
    const from = after(SPACE, text, after(SPACE, text, end) + 1);
    const to = endOfValue(text, from);
    members.push({ name, text: text.slice(from, to) });
    at = after(SPACE, text, to);
    if (text[at] === ",") at = after(SPACE, text, at + 1);
  }
  return members;
}

function after(token: RegExp, text: string, at: number): number {
  token.lastIndex = at;
  token.test(text);
  return token.lastIndex;
}

/** The index behind the value that begins at `from`. */
function endOfValue(text: string, from: number): number {
  const first = text[from];
  if (first === '"') return endOfString(text, from) + 1;
  if (first !== "{" && first !== "[") return after(WORD, text, from);
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const unit = text[at];
    if (unit === '"') at = endOfString(text, at);
    else if (unit === "{" || unit === "[") depth++;
    else if ((unit === "}" || unit === "]") && --depth === 0) return at + 1;
  }
  return text.length;
}
