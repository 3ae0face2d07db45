import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TrunklineError } from "../../server/src/core/error.js";
import { findJsonFault } from "../../server/src/core/json-fault.js";
import {
  byteLength,
  checkBytes,
  checkJsonText,
  jsonDepth,
  parseJsonText,
  quoted,
} from "../../server/src/core/json-text.js";
import { parses } from "./parses.js";

const MIB = 1024 * 1024;

function refusal(text: string, limits = { maxBytes: MIB }): TrunklineError {
  try {
    checkJsonText(text, "input", limits);
  } catch (error) {
    if (error instanceof TrunklineError) return error;
    throw error;
  }
  return expect.fail(`${quoted(text)} was accepted`);
}

/** A value inside `depth` arrays, or objects. */
function nested(depth: number, open = "[", close = "]"): string {
  return `${open.repeat(depth)}1${close.repeat(depth)}`;
}

describe("checkJsonText", () => {
  test.each([
    "null",
    " \t\r\n{} \n",
    '""',
    "-0",
    "1e400",
    "9007199254740993",
    "1".repeat(10_000),
    '{"a":1,"a":2}',
    '{"__proto__":{"x":1}}',
    '"\u2028\u007f\uffff"',
    '"😀"',
  ])("%j passes", (text) => {
    expect(() => {
      checkJsonText(text, "input", { maxBytes: MIB });
    }).not.toThrow();
  });

  test("B06: escapes of NUL and of half a surrogate pair are JSON and pass", () => {
    for (const text of [String.raw`"\u0000"`, String.raw`"\ud83d"`, String.raw`"\\u0000"`]) {
      expect(parseJsonText(text, "input", { maxBytes: MIB })).toBe(JSON.parse(text));
    }
  });

  test("B06: half a surrogate pair that is not escaped is refused, not turned into U+FFFD", () => {
    for (const half of ["\ud83d", "\ude00"]) {
      const error = refusal(`{"a":"x${half}"}`);
      expect(error.reason).toBe("INVALID_JSON");
      expect(error.metadata).toEqual({ field: "input", position: "7" });
      expect(error.message.isWellFormed()).toBe(true);
    }
  });

  test.each([
    ["", 0, "is empty"],
    ["   ", 3, "a value is expected"],
    ["\ufeff{}", 0, "a value is expected"],
    ['{"a":}', 5, "a value is expected"],
    ['{"a":1,}', 7, "a name in quotes is expected"],
    ["[1,]", 3, "a value is expected"],
    ["[1 2]", 3, "a comma or ] is expected"],
    ['{"a" 1}', 5, "a colon is expected"],
    ["{} {}", 3, "something follows the value"],
    ["01", 1, "something follows the value"],
    ["-", 0, "a number is malformed"],
    ["1.e3", 1, "something follows the value"],
    ["nul", 0, "a value is expected"],
    ["NaN", 0, "a value is expected"],
    ["'a'", 0, "a value is expected"],
    ['"a', 2, "a string is not closed"],
    ['"a\u0000"', 2, "a control character in a string is not escaped"],
    ['"a\nb"', 2, "a control character in a string is not escaped"],
    ['"\\x"', 1, "an unknown or cut escape"],
    ['"\\u12"', 1, "an unknown or cut escape"],
    ["[1", 2, "the text ends"],
    ["{", 1, "a name in quotes or }"],
  ])("%j is refused at offset %d because %s", (text, position, why) => {
    const error = refusal(text);
    expect(error.reason).toBe("INVALID_JSON");
    expect(error.metadata).toEqual({ field: "input", position: String(position) });
    expect(error.message).toMatch(/^input is (not JSON|empty)/);
    expect(error.message).toContain(why);
    expect(error.message).toContain("allowed is one JSON value");
  });

  test("a refusal repeats at most 20 characters of the payload, on one line", () => {
    const error = refusal(`{"secret":"${"s".repeat(500)}",\u001b[31m "x\n": tru}`);
    expect(error.message).not.toContain("s".repeat(21));
    expect(error.message).toMatch(/^[\x20-\x7e]+$/);
    expect(error.message.length).toBeLessThan(250);
  });

  test("size is counted in bytes of UTF-8, and the limit itself is allowed", () => {
    const text = `"${"ä".repeat(49)}"`;
    checkJsonText(text, "input", { maxBytes: 100 });
    const error = refusal(text, { maxBytes: 99 });
    expect(error).toMatchObject({
      reason: "LIMIT_EXCEEDED",
      message: "input has 100 bytes; allowed are at most 99 bytes of UTF-8",
      metadata: { limit: "bytes", size: "100", max: "99", field: "input" },
    });
  });

  test("a text that is larger than a payload passes where its limit allows that", () => {
    const text = `"${"x".repeat(2 * MIB)}"`;
    checkJsonText(text, "file", { maxBytes: 4 * MIB });
    expect(refusal(`${text},`, { maxBytes: 4 * MIB }).metadata).toMatchObject({
      position: String(text.length),
    });
    expect(refusal(text).metadata).toMatchObject({ limit: "bytes", size: String(text.length) });
  });

  test("B19: 256 levels pass and 257 are refused, in arrays and objects", () => {
    for (const [open, close] of [
      ["[", "]"],
      ['{"a":', "}"],
    ] as const) {
      checkJsonText(nested(256, open, close), "input", { maxBytes: MIB });
      expect(refusal(nested(257, open, close))).toMatchObject({
        reason: "LIMIT_EXCEEDED",
        message: "input nests 257 arrays and objects; allowed are at most 256",
        metadata: { limit: "depth", size: "257", max: "256", field: "input" },
      });
    }
  });

  test("B19: 100,000 levels are refused by depth, closed or not, without filling the stack", () => {
    expect(refusal(nested(100_000)).metadata).toMatchObject({ limit: "depth", size: "100000" });
    expect(refusal("[".repeat(100_000)).metadata).toMatchObject({ limit: "depth" });
    expect(refusal("]".repeat(100_000)).reason).toBe("INVALID_JSON");
  });

  test("the depth that is allowed may be lowered", () => {
    checkJsonText("[[1]]", "schema", { maxBytes: MIB, maxDepth: 2 });
    expect(() => {
      checkJsonText("[[[1]]]", "schema", { maxBytes: MIB, maxDepth: 2 });
    }).toThrow("schema nests 3 arrays and objects; allowed are at most 2");
  });
});

describe("jsonDepth", () => {
  test("brackets in strings do not count, whatever is escaped there", () => {
    expect(jsonDepth('"[[["')).toBe(0);
    expect(jsonDepth(String.raw`["\"[[", "\\", "[\\\"[", {"]": "}"}]`)).toBe(2);
    expect(jsonDepth(`["${"\\\\".repeat(100_000)}", [1]]`)).toBe(2);
  });

  test("it is the depth of the parsed value", () => {
    const depthOf = (value: unknown): number =>
      typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
    fc.assert(
      fc.property(fc.json({ maxDepth: 6, stringUnit: "binary" }), (text) => {
        expect(jsonDepth(text)).toBe(depthOf(JSON.parse(text)));
      }),
    );
  });
});

describe("findJsonFault", () => {
  test("it finds a fault exactly in the texts that the parser refuses", () => {
    const piece = fc.constantFrom(
      ...'[]{}:,"\\ \n0123.eE+-'.split(""),
      ...["true", "null", '"a"', "\\u00e9", '{"a":', "[1]", "\ufeff", "\u0000", "é"],
    );
    const texts = fc.oneof(
      fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join("")),
      fc.tuple(fc.json(), fc.nat(), fc.option(piece, { nil: "" })).map(([text, at, added]) => {
        const place = at % (text.length + 1);
        return `${text.slice(0, place)}${added}${text.slice(place + 1)}`;
      }),
    );
    fc.assert(
      fc.property(texts, (text) => {
        const fault = findJsonFault(text);
        expect(fault === undefined).toBe(parses(text));
        expect(fault?.at ?? 0).toBeLessThanOrEqual(text.length);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("checkBytes", () => {
  test("a text of the limit passes and one byte more is refused", () => {
    expect(byteLength("aä€😀")).toBe(10);
    checkBytes("aä€😀", "message", 10);
    expect(() => {
      checkBytes("aä€😀", "message", 9);
    }).toThrow("message has 10 bytes; allowed are at most 9 bytes of UTF-8");
  });
});

describe("quoted", () => {
  test("nothing in it acts on a terminal or hides from a reader", () => {
    expect(quoted('a"\n\u001b[31m\u009b\u202e\ud800')).toBe(String.raw`"a\"\n\u001b[31m\u009b\u202e\ud800"`);
  });

  test("a long text is cut, never inside a surrogate pair", () => {
    expect(quoted("abcdef", 3)).toBe('"abc"… (6 characters)');
    expect(quoted("ab😀cd", 3)).toBe('"ab"… (6 characters)');
  });
});
