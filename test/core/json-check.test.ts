import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isJson } from "../../server/src/core/json-check.js";
import { jsonDepth } from "../../server/src/core/json-text.js";
import { LIMITS } from "../../server/src/core/limits.js";
import { parses } from "./parses.js";

const MAX_BYTES = LIMITS.payloadBytes;
const DEPTH = 1_000;

const check = (text: string): boolean => isJson(text, MAX_BYTES, DEPTH);

const PIECES = [
  ...'[]{}:,"\\/ \n\t\r0123.eE+-au'.split(""),
  ...[
    "true",
    "false",
    "null",
    "nul",
    "-0",
    "1e5",
    "0.5",
    '"a"',
    "\\u00e9",
    "\\ud83d",
    "\\n",
    '{"a":',
    "[1]",
    "},{",
  ],
  ...[
    "\ufeff",
    "\u0000",
    "\u001f",
    "\u007f",
    "\u00a0",
    "\u2028",
    "é",
    "漢",
    "😀",
    "\ud83d",
    "aaaaaaaa",
    "        ",
  ],
];

const piece = fc.constantFrom(...PIECES);

/** JSON of all kinds, with and without space in it. */
const json = fc
  .tuple(
    fc.jsonValue({ maxDepth: 5, stringUnit: "binary" }),
    fc.constantFrom(undefined, 1, "\t", "\r\n", "      "),
  )
  .map(([value, space]) => JSON.stringify(value, null, space));

/** Texts that are nearly JSON: at one place something is added, left out or put in place of something. */
const nearly = fc
  .tuple(json, fc.nat(), fc.option(piece, { nil: "" }), fc.integer({ min: 0, max: 3 }))
  .map(([text, at, added, removed]) => {
    const place = at % (text.length + 1);
    return text.slice(0, place) + added + text.slice(place + removed);
  });

describe("isJson", () => {
  test("it accepts exactly what the parser does", () => {
    const anything = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(""));
    fc.assert(
      fc.property(fc.oneof(json, nearly, anything), (text) => {
        expect(check(text)).toBe(parses(text));
      }),
      { numRuns: 5_000 },
    );
  });

  test.each([
    "0",
    "-0",
    "-",
    "00",
    "01",
    "-01",
    "1.",
    ".5",
    "1.5",
    "1e",
    "1e+",
    "1E-05",
    "1.e3",
    "+1",
    "0x1",
    "1e400",
  ])("a number is read as the parser reads it: %s", (number) => {
    for (const text of [
      number,
      ` ${number}\n`,
      `[${number}]`,
      `[${number},1]`,
      `{"a":${number}}`,
      `${number}${number}`,
    ]) {
      expect([text, check(text)]).toEqual([text, parses(text)]);
    }
  });

  test("what a string may have is the same at each place of it, however long it is", () => {
    const specials = [
      ...Array.from({ length: 0x102 }, (_, unit) => String.fromCharCode(unit)),
      ...[
        "漢",
        "😀",
        "\u2028",
        '\\"',
        "\\\\",
        "\\",
        "\\u12aF",
        "\\u12a",
        "\\u12ag",
        "\\x",
        '\\"\\',
        "\\\\\\",
        '"',
      ],
    ];
    for (const special of specials) {
      for (let before = 0; before < 9; before++) {
        for (const after of [0, 1, 3, 11]) {
          const text = `"${"x".repeat(before)}${special}${"y".repeat(after)}"`;
          expect([text, check(text)]).toEqual([text, parses(text)]);
        }
      }
    }
  });

  test("a text that is cut is not completed by the one before it", () => {
    const whole = '{"name":"\\u12ab value","list":[true,false,null,-12.5e+10]}';
    for (let end = 0; end < whole.length; end++) {
      expect(check(whole)).toBe(true);
      expect([end, check(whole.slice(0, end))]).toEqual([end, false]);
    }
    for (const scalar of ["true", "12", '"ab"']) {
      expect(check(`${scalar} ${scalar}`)).toBe(false);
      expect(check(scalar)).toBe(true);
      expect(check(`${scalar}\u0000`)).toBe(false);
    }
  });

  test("it is exact about depth", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6, stringUnit: "binary" }), (text) => {
        const depth = jsonDepth(text);
        expect(isJson(text, MAX_BYTES, depth)).toBe(true);
        if (depth > 0) expect(isJson(text, MAX_BYTES, depth - 1)).toBe(false);
      }),
    );
    for (const open of ["[", '{"":']) expect(isJson(open.repeat(400_000), MAX_BYTES, Infinity)).toBe(false);
    expect(isJson("[".repeat(400_000) + "]".repeat(400_000), MAX_BYTES, Infinity)).toBe(true);
  });

  test.each(["x", "é", "漢", "😀"])(
    "a text of the largest size passes, and one byte more does not: %s",
    (character) => {
      const width = Buffer.byteLength(character);
      const plain = (MAX_BYTES - 2) % width;
      const text = `"${"x".repeat(plain)}${character.repeat((MAX_BYTES - 2 - plain) / width)}"`;
      expect(check(text)).toBe(true);
      expect(check(` ${text}`)).toBe(false);
      expect(isJson(text, MAX_BYTES - 1, DEPTH)).toBe(false);
      expect(isJson(` ${text}`, MAX_BYTES + 1, DEPTH)).toBe(false);
    },
  );
});
