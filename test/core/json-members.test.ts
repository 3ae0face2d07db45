import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { jsonMembers } from "../../server/src/core/json-members.js";

/** The members, as pairs. */
function pairs(text: string): [string, string][] | undefined {
  return jsonMembers(text)?.map((member) => [member.name, member.text]);
}

describe("the members of a JSON object", () => {
  test.each([
    ["{}", []],
    [" \n{\t}\r ", []],
    ['{"a":1}', [["a", "1"]]],
    [
      '{"result":12345678901234567890.12345678901234567890}',
      [["result", "12345678901234567890.12345678901234567890"]],
    ],
    ['{"n": -0.0e+10 }', [["n", "-0.0e+10"]]],
    [
      '{"a":1e400,"b":true , "c" : false,"d":null}',
      [
        ["a", "1e400"],
        ["b", "true"],
        ["c", "false"],
        ["d", "null"],
      ],
    ],
  ])("of %s are found", (text, expected) => {
    expect(pairs(text)).toEqual(expected);
  });

  test("keep every space, duplicate and escape within them, and none around them", () => {
    const inner = '{ "a" :\t[1,\n 2 ], "a": {"}": "]"}, "\\u0061":"\\u0000\\ud83d\\/" }';
    expect(pairs(`{\n "x" \t:\r\n ${inner} \n,\n"y":[ ]\n}`)).toEqual([
      ["x", inner],
      ["y", "[ ]"],
    ]);
  });

  test("end at the right quote, whatever is escaped before it", () => {
    for (const string of ['""', '"\\""', '"\\\\"', '"\\\\\\""', '"\\\\\\\\"', '"},{"', '"a\\\\\\"b,\\"c"']) {
      expect(pairs(`{"s":${string},"t":0}`)).toEqual([
        ["s", string],
        ["t", "0"],
      ]);
    }
  });

  test("have names with their escapes undone", () => {
    expect(pairs('{"\\u0072esult":1,"a\\"b\\\\":2,"\\ud83d\\ude00":3,"__proto__":4,"":5}')).toEqual([
      ["result", "1"],
      ['a"b\\', "2"],
      ["😀", "3"],
      ["__proto__", "4"],
      ["", "5"],
    ]);
  });

  test("are there as often as they are written, in their order", () => {
    expect(pairs('{"a":1,"b":2,"a":3,"\\u0061":4}')).toEqual([
      ["a", "1"],
      ["b", "2"],
      ["a", "3"],
      ["a", "4"],
    ]);
  });

  test.each(["[]", '["a",1]', '"{}"', "0", "null", " true "])("are none where the value is %s", (text) => {
    expect(jsonMembers(text)).toBeUndefined();
  });

  test("of an object that is as deep and as wide as may be are found in linear time", () => {
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    const quotes = `"${'\\"'.repeat(200_000)}"`;
    const wide = Array.from({ length: 50_000 }, (_, index) => `"${index}":${index}`).join(",");
    const startedAt = performance.now();
    expect(pairs(`{"deep":${deep},"quotes":${quotes}}`)).toEqual([
      ["deep", deep],
      ["quotes", quotes],
    ]);
    expect(jsonMembers(`{${wide}}`)).toHaveLength(50_000);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  test("are what a parser finds, whatever the object", () => {
    const spaces = fc.constantFrom(undefined, 1, "\t", "\r\n ");
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: "grapheme" }), fc.jsonValue()), spaces, (object, space) => {
        const text = JSON.stringify(object, undefined, space);
        const found = (jsonMembers(text) ?? []).map((member): [string, unknown] => [
          member.name,
          JSON.parse(member.text),
        ]);
        expect(Object.fromEntries(found)).toEqual(JSON.parse(text));
        for (const member of jsonMembers(text) ?? []) expect(text).toContain(member.text);
      }),
    );
  });
});
