import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TrunklineError } from "../../client/src/errors.js";
import { isTooLarge, nameThrown, rawJson, toJson } from "../../client/src/json.js";

const refusal = (value: unknown, maxBytes?: number): TrunklineError => {
  try {
    toJson(value, "result", maxBytes);
  } catch (error) {
    if (error instanceof TrunklineError) return error;
    throw error;
  }
  throw new Error("it was not refused");
};

/** What it says is no field, so that JSON would have nothing of it. */
class Hidden {
  readonly #name = "Ada";

  get name(): string {
    return this.#name;
  }
}

const nested = (depth: number): unknown => {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = [value];
  return value;
};

describe("toJson", () => {
  test("whatever JSON can carry is written as JSON.stringify writes it", () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: "grapheme" }), (value) => {
        expect(toJson(value, "value")).toBe(JSON.stringify(value));
      }),
    );
  });

  test.each([
    [{ items: [{}, {}, {}, { price: NaN }] }, "result.items[3].price is NaN, which JSON cannot carry"],
    [{ a: -Infinity }, "result.a is -Infinity, which JSON cannot carry"],
    [undefined, "result is undefined, which JSON cannot carry; give null for nothing"],
    [{ a: { b: undefined } }, "result.a.b is undefined, which JSON cannot carry; leave it out, or give null"],
    [[1, , 3], "result[1] is undefined"],
    [{ id: 12n }, "result.id is a BigInt"],
    [[() => 1], "result[0] is a function"],
    [{ s: Symbol("x") }, "result.s is a symbol"],
    [{ "odd key": NaN }, 'result["odd key"] is NaN'],
    [{ name: "half \ud83d" }, "result.name is a string with half of a surrogate pair"],
    [{ "\udc00": 1 }, "result has a key with half of a surrogate pair"],
    [{ m: new Map([[1, 2]]) }, "result.m is a Map"],
    [{ s: new Set([1]) }, "result.s is a Set"],
    [{ p: Promise.resolve(1) }, "result.p is a Promise (is an await missing?)"],
    [new Error("no"), "result is an Error"],
    [{ b: new Uint8Array(2) }, "result.b is binary data"],
    [{ at: new Date(NaN) }, "result.at is an invalid Date"],
    [{ rows: [1].values() }, "result.rows is an iterator or a stream"],
    [new ReadableStream(), "result is an iterator or a stream"],
    [new URLSearchParams("a=1"), "result is an iterator or a stream"],
    [new Response("{}"), "result is an object without fields of its own"],
    [{ of: new Hidden() }, "result.of is an object without fields of its own"],
  ])("%o is refused, and the message says where and what", (value, message) => {
    expect(refusal(value)).toMatchObject({ reason: "INVALID_JSON" });
    expect(refusal(value).message).toContain(message);
  });

  test("an object that is just empty is one, of whatever class or realm it is", () => {
    const values = [
      {},
      Object.create(null),
      runInNewContext("({})"),
      [],
      new (class Empty extends Object {})(),
    ];
    expect(toJson(values, "result")).toBe("[{},{},{},[],{}]");
  });

  test("what JSON loses is refused from any realm, and what only bears a name of it is not taken for it", () => {
    for (const [made, kind] of [
      ["new Map([[1, 2]])", "a Map"],
      ["Promise.resolve()", "a Promise"],
      ["new TypeError('no')", "an Error"],
      ["new Uint8Array(2)", "binary data"],
      ["new Date(NaN)", "an invalid Date"],
    ] as const) {
      expect(refusal({ of: runInNewContext(made) as unknown }).message).toContain(`result.of is ${kind}`);
    }
    expect(refusal(new DOMException("no")).message).toContain("result is an Error");
    expect(toJson([runInNewContext("new Number(1)"), new String("a")], "result")).toBe('[1,"a"]');
    class Named {
      readonly a = 1;
      readonly [Symbol.toStringTag] = "String";
    }
    expect(toJson(new Named(), "result")).toBe('{"a":1}');
  });

  test("a cycle is refused where it closes, and a value used twice is not a cycle", () => {
    const cycle: Record<string, unknown> = { a: {} };
    cycle["a"] = { again: [cycle] };
    expect(refusal(cycle).message).toContain("result.a.again[0] is a cycle");
    const shared = { x: 1 };
    expect(toJson([shared, shared], "result")).toBe('[{"x":1},{"x":1}]');
  });

  test("a toJSON is called, and one that throws is named with its place", () => {
    expect(toJson({ at: new Date(0) }, "result")).toBe('{"at":"1970-01-01T00:00:00.000Z"}');
    const bad = {
      inner: {
        toJSON: () => {
          throw new TypeError("nope");
        },
      },
    };
    expect(refusal(bad).message).toBe("result.inner cannot be read: TypeError: nope");
  });

  test("a getter or a proxy that throws is named with its place", () => {
    const getter = {
      ok: 1,
      get bad(): never {
        throw new Error("hidden");
      },
    };
    expect(refusal({ getter }).message).toBe("result.getter.bad cannot be read: Error: hidden");
    const proxy = new Proxy(
      {},
      {
        ownKeys: () => {
          // eslint-disable-next-line @typescript-eslint/only-throw-error -- that is what is tested
          throw "away";
        },
      },
    );
    expect(refusal([proxy]).message).toContain("result[0] cannot be read: away");
  });

  test("256 levels are written and 257 are refused, however deep it goes on", () => {
    expect(toJson(nested(256), "result")).toHaveLength(513);
    expect(refusal(nested(257))).toMatchObject({ reason: "LIMIT_EXCEEDED", metadata: { limit: "depth" } });
    expect(refusal(nested(100_000)).message).toContain("at most 256");
  });

  test("size is counted in bytes of UTF-8, to the byte", () => {
    expect(toJson("€€", "result", 8)).toBe('"€€"');
    const error = refusal("€€", 7);
    expect(error.message).toBe("result has 8 bytes; allowed are at most 7 bytes of UTF-8");
    expect(error.metadata).toEqual({ field: "result", limit: "bytes", size: "8", max: "7" });
    expect(isTooLarge(error)).toBe(true);
  });

  test("a small value whose text would be endless is refused without writing it", () => {
    let value: unknown = "x".repeat(1000);
    for (let level = 0; level < 100; level++) value = [value, value];
    expect(isTooLarge(refusal(value))).toBe(true);
  });

  test("a __proto__ key is data like any other", () => {
    const value: unknown = JSON.parse('{"__proto__":{"admin":true},"constructor":1}');
    expect(toJson(value, "result")).toBe('{"__proto__":{"admin":true},"constructor":1}');
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
  });
});

describe("rawJson", () => {
  test("its text passes through untouched, at the top and inside", () => {
    const text = '{ "id": 9007199254740993, "x": 1e400 }';
    expect(toJson(rawJson(text), "result")).toBe(text);
    expect(toJson({ a: [rawJson("1.0")] }, "result")).toBe('{"a":[1.0]}');
  });

  test.each(["", "{", "{'a':1}", "undefined", '"\ud800"'])("%j is no JSON text and is refused", (text) => {
    expect(() => rawJson(text)).toThrow(TrunklineError);
  });
});

describe("nameThrown", () => {
  test("whatever was thrown gets one line and never throws", () => {
    expect(nameThrown(new RangeError("far"))).toBe("RangeError: far");
    expect(nameThrown("boom")).toBe("boom (a string was thrown, not an Error)");
    expect(nameThrown(undefined)).toBe("undefined was thrown, not an Error");
    expect(nameThrown(Object.freeze({ code: 1 }))).toBe("an object was thrown that is not an Error");
    const hostile = new Error("x");
    Object.defineProperty(hostile, "message", {
      get: () => {
        throw hostile;
      },
    });
    expect(nameThrown(hostile)).toBe("something was thrown that cannot be read");
  });
});
