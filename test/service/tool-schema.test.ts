import { describe, expect, test } from "vitest";
import { TrunklineError } from "../../server/src/core/error.js";
import { compileToolSchema } from "../../server/src/service/tool-schema.js";

const WHERE = 'tool "crm.find": input_schema';

function compile(schema: unknown): ReturnType<typeof compileToolSchema> {
  return compileToolSchema(typeof schema === "string" ? schema : JSON.stringify(schema), WHERE);
}

function check(schema: unknown, value: unknown): string | undefined {
  return compile(schema).check(value);
}

function refusal(schema: unknown): TrunklineError {
  try {
    compile(schema);
  } catch (error) {
    if (error instanceof TrunklineError) return error;
    throw error;
  }
  return expect.fail("the schema was accepted");
}

/** How long `work` took, in milliseconds. */
function timed(work: () => void): number {
  const start = performance.now();
  work();
  return performance.now() - start;
}

function nestedArray(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = [value];
  return value;
}

const customer = {
  type: "object",
  properties: {
    email: { type: "string", format: "email", maxLength: 200 },
    age: { type: "integer", minimum: 0 },
    tags: { type: "array", items: { type: "string" }, maxItems: 3 },
    address: { type: "object", properties: { zip: { type: "string", pattern: "^[0-9]{5}$" } } },
    plan: { enum: ["free", "pro", null] },
  },
  required: ["email"],
  additionalProperties: false,
};

describe("checking a value", () => {
  test("a value that satisfies its schema has no fault", () => {
    const address = { zip: "12345", more: true };
    expect(check(customer, { email: "a@b.c" })).toBeUndefined();
    expect(check(customer, { email: "a@b.c", age: 3, tags: ["x"], address, plan: null })).toBeUndefined();
  });

  test.each([
    [[], "input: must be an object, got an array of 0"],
    [{}, 'input: must have the property "email", got an object with 0 properties'],
    [{ email: 42 }, "input/email: must be a string, got 42"],
    [{ email: "a", age: -1 }, "input/age: must be at least 0, got -1"],
    [{ email: "a", age: 1.5 }, "input/age: must be an integer, got 1.5"],
    [{ email: "a", tags: ["x", { y: 1 }] }, "input/tags/1: must be a string, got an object with 1 property"],
    [{ email: "a", tags: ["1", "2", "3", "4"] }, "input/tags: must have at most 3 items, got an array of 4"],
    [
      { email: "a", address: { zip: "1" } },
      'input/address/zip: must match the pattern "^[0-9]{5}$", got "1"',
    ],
    [{ email: "a", plan: "max" }, 'input/plan: must be "free", "pro" or null, got "max"'],
    [
      { email: "a", phone: true },
      'input/phone: is not an allowed property (allowed are "email", "age", "tags", "address" and "plan"), got true',
    ],
  ])("%j is refused with its place and what is allowed", (value, message) => {
    expect(check(customer, value)).toBe(message);
  });

  test("the message begins with the name that the caller gives", () => {
    expect(compile({ type: "string" }).check(1, "result")).toBe("result: must be a string, got 1");
  });

  test("a message stays on one short line, whatever the value's names and texts are", () => {
    const value = { ["a/b~\n\u001b[31m"]: "x\n".repeat(10_000) };
    const message = check({ additionalProperties: { type: "number" } }, value);
    expect(message).toMatch(/^input\/a~1b~0\\n\\u001b\[31m: must be a number, got "x\\n/);
    expect(message?.length).toBeLessThan(300);
    const deep = check({ items: { $ref: "#" }, type: "array" }, nestedArray(256));
    expect(deep?.length).toBeLessThan(300);
  });

  test.each([
    [true, 1, undefined],
    [false, 1, "input: is not allowed, got 1"],
    [{}, null, undefined],
    [{ type: ["string", "null"] }, 1, "input: must be a string or null, got 1"],
    [{ const: { a: [1] } }, { a: [1] }, undefined],
    [
      { const: { a: [1] } },
      { a: [2] },
      "input: must be an object with 1 property, got an object with 1 property",
    ],
    [{ const: 5 }, 6, "input: must be 5, got 6"],
    [{ enum: [[1], { b: 1, a: 2 }] }, { a: 2, b: 1 }, undefined],
    [{ exclusiveMaximum: 5 }, 5, "input: must be below 5, got 5"],
    [{ multipleOf: 0.0001 }, 0.0075, undefined],
    [{ multipleOf: 0.01 }, 0.005, "input: must be a multiple of 0.01, got 0.005"],
    [{ minLength: 2 }, "😀", 'input: must have at least 2 characters, got "😀"'],
    [{ maxLength: 2 }, "😀😀", undefined],
    [{ type: "integer" }, 1.0, undefined],
    [{ minProperties: 1 }, {}, "input: must have at least 1 properties, got an object with 0 properties"],
    [
      { propertyNames: { pattern: "^[a-z]+$" } },
      { A: 1 },
      'input: has a property whose name must match the pattern "^[a-z]+$", got "A"',
    ],
    [{ patternProperties: { "^n": { type: "number" } } }, { n1: "x" }, 'input/n1: must be a number, got "x"'],
    [
      { dependentRequired: { a: ["b"] } },
      { a: 1 },
      'input: must have the property "b", got an object with 1 property',
    ],
    [
      { dependencies: { a: ["b"], c: { required: ["d"] } } },
      { c: 1 },
      'input: must have the property "d", got an object with 1 property',
    ],
    [
      { prefixItems: [{ type: "string" }], items: { type: "number" } },
      ["a", "b"],
      'input/1: must be a number, got "b"',
    ],
    [{ items: [{ type: "string" }], additionalItems: false }, ["a", 1], "input/1: is not allowed, got 1"],
    [
      { uniqueItems: true },
      [1, "1", { a: 1, b: 2 }, { b: 2, a: 1 }],
      "input/3: must differ from the items before, got an object with 2 properties",
    ],
    [
      { contains: { const: 1 }, maxContains: 1 },
      [1, 1],
      "input: must contain at most 1 items of a kind, got an array of 2",
    ],
    [{ contains: { const: 1 } }, [], "input: must contain at least 1 items of a kind, got an array of 0"],
    [{ not: { type: "string" } }, "a", 'input: must not be what the schema excludes, got "a"'],
    [
      { if: { required: ["a"] }, then: { required: ["b"] }, else: false },
      { a: 1 },
      'input: must have the property "b", got an object with 1 property',
    ],
    [{ allOf: [{ minimum: 1 }, { maximum: 2 }] }, 3, "input: must be at most 2, got 3"],
  ])("under %j the value %j gets %j", (schema, value, message) => {
    expect(check(schema, value)).toBe(message);
  });

  test("unevaluatedProperties sees what every part of the schema has looked at", () => {
    const schema = {
      allOf: [{ properties: { a: true } }, { anyOf: [{ properties: { b: { type: "string" } } }, true] }],
      if: { required: ["c"], properties: { c: true } },
      unevaluatedProperties: false,
    };
    expect(check(schema, { a: 1, b: "x", c: 1 })).toBeUndefined();
    expect(check(schema, { a: 1, b: 2 })).toContain("input/b: is a property that no part");
    expect(check({ prefixItems: [true], unevaluatedItems: false }, [1, 2])).toContain("input/1");
  });

  test("values beyond 2^53 and out of range are checked as JavaScript has them", () => {
    expect(check({ type: "integer" }, JSON.parse("9007199254740993"))).toBeUndefined();
    expect(check({ type: "number" }, JSON.parse("1e400"))).toBeUndefined();
    expect(check({ uniqueItems: true }, JSON.parse("[1e400, null]"))).toBeUndefined();
  });

  test("formats, known or not, are annotations and refuse nothing", () => {
    for (const format of ["email", "date-time", "uri", "uuid", "no-such-format"]) {
      expect(check({ type: "string", format }, "anything")).toBeUndefined();
    }
  });

  test("S15: __proto__ and names of Object's own methods are properties like any other", () => {
    const value: unknown = JSON.parse('{"__proto__":{"admin":true}}');
    expect(check({ additionalProperties: false }, value)).toContain("input/__proto__: is not");
    expect(check('{"properties":{"__proto__":{"type":"string"}}}', value)).toContain(
      "input/__proto__: must be a string",
    );
    expect(check({ required: ["admin"] }, value)).toContain('must have the property "admin"');
    expect(check({ required: ["toString"] }, {})).toContain('must have the property "toString"');
    expect(check({ properties: { constructor: { type: "string" } } }, {})).toBeUndefined();
    expect(check('{"__proto__":{"type":"string"}}', 1)).toBeUndefined();
  });
});

describe("alternatives", () => {
  const shapes = {
    oneOf: [
      { properties: { kind: { const: "circle" }, r: { type: "number" } }, required: ["kind", "r"] },
      { properties: { kind: { const: "square" }, w: { type: "number" } }, required: ["kind", "w"] },
    ],
  };

  test("when none fits, the message says what each wants", () => {
    const schema = { anyOf: [{ type: "string" }, { type: "null" }] };
    expect(check(schema, "a")).toBeUndefined();
    expect(check(schema, 3)).toBe("input: must be a string or must be null, got 3");
  });

  test("when one was clearly meant, the message tells its fault", () => {
    expect(check(shapes, { kind: "circle", r: 1 })).toBeUndefined();
    expect(check(shapes, { kind: "circle", r: "1" })).toBe(
      'input/r: must be a number (as the nearest of 2 alternatives), got "1"',
    );
  });

  test("oneOf refuses a value that fits two", () => {
    const schema = { oneOf: [{ type: "string" }, { minimum: 1 }, { type: "number" }] };
    expect(check(schema, 5)).toBe(
      "input: must match exactly one of 3 alternatives, not both #2 and #3, got 5",
    );
  });
});

describe("references", () => {
  test("a place of the schema can be used again, by pointer or by anchor", () => {
    const schema = {
      $id: "https://example.com/tool",
      $defs: { "a/b%": { type: "string" }, named: { $anchor: "n", type: "number" } },
      properties: { x: { $ref: "#/$defs/a~1b%25" }, y: { $ref: "#n" } },
    };
    expect(check(schema, { x: "a", y: 1 })).toBeUndefined();
    expect(check(schema, { x: 1 })).toBe("input/x: must be a string, got 1");
    expect(check(schema, { y: "a" })).toBe('input/y: must be a number, got "a"');
  });

  test("a schema may contain itself, to the depth that payloads may have", () => {
    const tree = {
      anyOf: [{ type: "number" }, { type: "array", items: { $ref: "#" } }],
    };
    expect(check(tree, nestedArray(256))).toBeUndefined();
    expect(check(tree, [[["x"]]])).toContain("input/0/0/0: must be a number or must be an array");
  });

  test("in draft-07 what stands beside $ref is ignored, in 2020-12 it counts", () => {
    const schema = {
      definitions: { s: true },
      properties: { a: { $ref: "#/definitions/s", type: "string" } },
    };
    expect(check(schema, { a: 1 })).toBe("input/a: must be a string, got 1");
    const old = { $schema: "http://json-schema.org/draft-07/schema#", ...schema };
    expect(check(old, { a: 1 })).toBeUndefined();
  });

  test.each([
    ["https://example.com/s.json", "is not in the schema"],
    ["other.json#/a", "is not in the schema"],
    ["file:///etc/passwd", "is not in the schema"],
    ["#/$defs/missing", "leads nowhere"],
    ["#/__proto__", "leads nowhere"],
    ["#no-such-anchor", "leads nowhere"],
    ["#/%", "leads nowhere"],
  ])("a reference to %s is refused", (ref, why) => {
    const error = refusal({ properties: { a: { $ref: ref } } });
    expect(error.reason).toBe("SCHEMA_VIOLATION");
    expect(error.message).toBe(
      `${WHERE} at #/properties/a/$ref: "${ref}" ${why}; allowed are # and references within the schema: #/pointer, #anchor`,
    );
  });

  test.each([
    [{ $ref: "#" }],
    [{ allOf: [{ anyOf: [{ $ref: "#/allOf/0" }] }] }],
    [{ $defs: { a: { not: { $ref: "#/$defs/b" } }, b: { if: { $ref: "#/$defs/a" } } }, $ref: "#/$defs/a" }],
  ])("%j, which leads back to itself at the same value, is refused", (schema) => {
    expect(refusal(schema).message).toContain("leads back to itself");
  });
});

describe("patterns", () => {
  test("a pattern that makes backtracking engines hang takes linear time", () => {
    const schema = compile({ pattern: "^(a+)+$" });
    const text = `${"a".repeat(50_000)}!`;
    const took = timed(() => {
      expect(schema.check(text)).toContain("must match the pattern");
      expect(schema.check("aaa")).toBeUndefined();
    });
    expect(took).toBeLessThan(2_000);
  });

  test("JavaScript's escapes are understood, and a pattern may match anywhere", () => {
    expect(check({ pattern: "\\u0041\\/[^]" }, "xA/\n")).toBeUndefined();
    expect(check({ pattern: "^\\p{L}.$" }, "ä😀")).toBeUndefined();
  });

  test.each(["(?=a)b", "(a)\\1", "(?<!a)b", "(", "a{1001}", "[b-a]"])("%s is refused", (pattern) => {
    const error = refusal({ properties: { a: { pattern } } });
    expect(error.reason).toBe("SCHEMA_VIOLATION");
    expect(error.message).toMatch(/input_schema at #\/properties\/a\/pattern: ".*" is not a pattern/);
    expect(error.message).toContain("allowed is RE2 syntax");
  });

  test("patterns that are huge when compiled are refused together", () => {
    const error = refusal({ allOf: Array.from({ length: 10 }, () => ({ pattern: "a{900}" })) });
    expect(error.message).toContain("allowed are 5000");
  });

  test("a long text under a costly pattern is given up, not worked on for seconds", () => {
    const schema = compile({ pattern: "a[ab]{900}[cd]" });
    const took = timed(() => {
      expect(schema.check("ab".repeat(400_000))).toContain("takes too much work");
    });
    expect(took).toBeLessThan(2_000);
  });

  test("a megabyte under an ordinary pattern is checked", () => {
    expect(check({ pattern: "^[A-Za-z0-9+/]*={0,2}$" }, "QUJD".repeat(262_144))).toBeUndefined();
  });
});

describe("schemas that are refused", () => {
  test.each([
    [[], "#", "must be a schema"],
    ["5", "#", "must be a schema"],
    [{ type: "strnig" }, "#/type", 'got "strnig"'],
    [{ type: [] }, "#/type", "at least one type"],
    [{ required: "a" }, "#/required", 'must be an array, got "a"'],
    [{ required: [1] }, "#/required", "must be an array of strings"],
    [{ properties: [] }, "#/properties", "must be an object"],
    [{ properties: { "a/b": 1 } }, "#/properties/a~1b", "must be a schema"],
    [{ items: { anyOf: [{}, 1] } }, "#/items/anyOf/1", "must be a schema"],
    [{ anyOf: [] }, "#/anyOf", "at least one schema"],
    [{ enum: [] }, "#/enum", "at least one value"],
    [{ minLength: -1 }, "#/minLength", "must be a whole number from 0"],
    [{ minimum: "1" }, "#/minimum", 'must be a number, got "1"'],
    [{ exclusiveMinimum: true }, "#/exclusiveMinimum", "must be a number, got true"],
    [{ multipleOf: 0 }, "#/multipleOf", "must be above 0"],
    [{ uniqueItems: 1 }, "#/uniqueItems", "must be true or false"],
    [{ dependentRequired: { a: 1 } }, "#/dependentRequired", "must have arrays of names"],
    [{ $schema: "http://json-schema.org/draft-04/schema#" }, "#/$schema", "allowed are JSON Schema 2020-12"],
    [{ $dynamicRef: "#a" }, "#/$dynamicRef", "is not supported"],
    [{ items: { $id: "https://example.com/b" } }, "#/items/$id", "allowed only at the top"],
  ])("%j is refused at %s", (schema, place, why) => {
    const error = refusal(schema);
    expect(error.reason).toBe("SCHEMA_VIOLATION");
    expect(error.message.startsWith(`${WHERE} at ${place}: `)).toBe(true);
    expect(error.message).toContain(why);
  });

  test("64 KiB and 32 levels are the most", () => {
    const big = JSON.stringify({ description: "x".repeat(64 * 1024) });
    expect(refusal(big)).toMatchObject({
      reason: "SCHEMA_VIOLATION",
      metadata: { limit: "bytes", max: "65536" },
    });
    const nest = (levels: number): string => `${'{"not":'.repeat(levels)}true${"}".repeat(levels)}`;
    expect(() => compile(nest(32))).not.toThrow();
    expect(refusal(nest(33))).toMatchObject({
      reason: "SCHEMA_VIOLATION",
      metadata: { limit: "depth", size: "33", max: "32" },
    });
  });

  test("a text that is not JSON is refused as such", () => {
    expect(refusal('{"type":').reason).toBe("INVALID_JSON");
  });
});

describe("schemas made to cost much", () => {
  /** `levels` schemas, each of which applies the next one twice. */
  function doubling(levels: number, keyword: string): unknown {
    const $defs: Record<string, unknown> = { [`d${String(levels)}`]: { type: "string" } };
    for (let level = 0; level < levels; level++) {
      const next = { $ref: `#/$defs/d${String(level + 1)}` };
      $defs[`d${String(level)}`] = { [keyword]: [next, next] };
    }
    return { $defs, $ref: "#/$defs/d0" };
  }

  test.each(["anyOf", "oneOf"])("2^40 alternatives of nested %s are given up", (keyword) => {
    const schema = compile(doubling(40, keyword));
    const took = timed(() => {
      expect(schema.check(5)).toContain("takes too much work");
    });
    expect(took).toBeLessThan(3_000);
  });

  test("a chain of a thousand references neither fills the stack nor throws", () => {
    const $defs: Record<string, unknown> = { d1000: { type: "string" } };
    for (let index = 0; index < 1_000; index++) {
      const next = { $ref: `#/$defs/d${String(index + 1)}` };
      $defs[`d${String(index)}`] = { anyOf: [next] };
    }
    const schema = { $defs, $ref: "#/$defs/d0", unevaluatedProperties: false };
    expect(check(schema, { a: 1 })).toContain("nests too deeply to be checked");
  });

  test.each(["anyOf", "oneOf"])(
    "what alternatives inside each other have looked at is not handed on through hundreds of %s",
    (keyword) => {
      const $defs: Record<string, unknown> = { d300: { contains: true, additionalProperties: true } };
      for (let index = 0; index < 300; index++) {
        $defs[`d${String(index)}`] = { [keyword]: [{ $ref: `#/$defs/d${String(index + 1)}` }] };
      }
      const schema = compile({
        $defs,
        $ref: "#/$defs/d0",
        unevaluatedProperties: false,
        unevaluatedItems: false,
      });
      const names = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`a${index}`, 1]));
      const took = timed(() => {
        expect(schema.check(names)).toContain("takes too much work");
        expect(schema.check(new Array(100_000).fill(1))).toContain("takes too much work");
      });
      expect(took).toBeLessThan(2_000);
    },
  );

  test("a recursive schema that branches at each level of a deep input is given up", () => {
    const branching = { type: "array", items: { oneOf: [{ $ref: "#" }, { $ref: "#" }] } };
    expect(check({ anyOf: [{ type: "string" }, branching] }, nestedArray(256))).toContain(
      "takes too much work",
    );
  });

  test("half a million items under a simple schema are checked", () => {
    const schema = { type: "array", items: { anyOf: [{ type: "string" }, { type: "integer" }] } };
    expect(
      check(
        schema,
        Array.from({ length: 500_000 }, () => 1),
      ),
    ).toBeUndefined();
  });
});
