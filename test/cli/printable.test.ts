import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { printable, printableJson } from "../../server/src/cli/printable.js";

/** What a terminal acts on, or what reorders a line. */
const ACTS = /[\p{Cc}\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\p{Cs}]/u;

describe("B18: text on a terminal", () => {
  test.each([
    ["\u001b[31mred\u001b[0m", "\\x1b[31mred\\x1b[0m"],
    ["\u009b2Jgone", "\\x9b2Jgone"],
    ["\u001b]0;title\u0007", "\\x1b]0;title\\x07"],
    ["two\nlines\r\tand a tab", "two\\nlines\\r\\tand a tab"],
    ["evil\u202egnp.exe", "evil\\u202egnp.exe"],
    ["half \ud800 pair", "half \\ud800 pair"],
    ["ä, 字, 👩‍💻", "ä, 字, 👩‍💻"],
  ])("%j is shown as %j", (text, shown) => {
    expect(printable(text)).toBe(shown);
  });

  test("nothing that a terminal acts on comes through, whatever the text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(printable(text)).not.toMatch(ACTS);
      }),
    );
  });

  test("JSON text still means the same when it is made safe", () => {
    fc.assert(
      fc.property(fc.json({ stringUnit: "binary" }), (text) => {
        const shown = printableJson(text);
        expect(JSON.parse(shown)).toEqual(JSON.parse(text));
        expect(shown.replaceAll(/[\n\t]/g, "")).not.toMatch(ACTS);
      }),
    );
  });

  test("line breaks between the tokens of JSON text stay, and its carriage returns go", () => {
    expect(printableJson('{\r\n\t"a": "\u009b"}')).toBe('{\n\t"a": "\\u009b"}');
  });
});
