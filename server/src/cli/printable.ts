/**
 * What a terminal may act on, or show in another order than it is written: control characters of both
 * ranges, directional overrides, line separators, halves of surrogate pairs.
 */
const UNSAFE = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\p{Cs}]/gu;

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escape(character: string): string {
  const code = character.charCodeAt(0);
  const hex = code.toString(16);
  return SHORT[character] ?? (code < 0x100 ? `\\x${hex.padStart(2, "0")}` : `\\u${hex.padStart(4, "0")}`);
}

/**
 * A text as one line that is safe on a terminal: what could move the cursor, colour, ring or reorder is
 * shown as an escape such as `\x1b`.
 */
export function printable(text: string): string {
  return text.replace(UNSAFE, escape);
}

/**
 * JSON text that is safe on a terminal and still means the same: what a string may hold unescaped and a
 * terminal may act on becomes `\uXXXX`. Line breaks and tabs between its tokens stay.
 */
export function printableJson(text: string): string {
  return text.replace(UNSAFE, (character) => {
    if (character === "\n" || character === "\t") return character;
    // Between tokens only, where it means nothing: a string cannot hold one.
    if (character === "\r") return "";
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
