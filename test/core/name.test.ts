import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TrunklineError } from "../../server/src/core/error.js";
import {
  checkLabels,
  checkName,
  checkToolName,
  checkTraceparent,
  checkWellFormed,
  formatCallId,
  formatToken,
  isUuid,
  parseCallId,
  parseToken,
} from "../../server/src/core/name.js";

const RUN_ID = "0190a6c2-5f1e-7c3b-9d2a-0123456789ab";
const SECRET = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE";

function refusal(check: () => void): TrunklineError {
  try {
    check();
  } catch (error) {
    if (error instanceof TrunklineError) return error;
    throw error;
  }
  return expect.fail("it was accepted");
}

describe("checkToolName", () => {
  test.each(["a", "crm.find_customer", "A-1", "x".repeat(128), "__proto__"])("%s is a tool name", (name) => {
    expect(() => {
      checkToolName(name, "tool");
    }).not.toThrow();
  });

  test.each(["", "a b", "a/b", "ä", "a\n", "a\u0000", "\ud800"])("%j is refused", (name) => {
    const error = refusal(() => {
      checkToolName(name, "tool");
    });
    expect(error.reason).toBe("INVALID_FIELD");
    expect(error.message).toMatch(/^tool: ".*" is .*; allowed are 1 to 128 characters/);
  });

  test("129 characters are one too many", () => {
    const error = refusal(() => {
      checkToolName("x".repeat(129), "tool");
    });
    expect(error.metadata).toEqual({ field: "tool", limit: "bytes", size: "129", max: "128" });
  });
});

describe("checkName", () => {
  test.each(["a", "user 42", "ключ", "😀", "ä".repeat(128), "x".repeat(256)])("%s passes", (name) => {
    expect(() => {
      checkName(name, "key");
    }).not.toThrow();
  });

  test.each([
    ["", "is empty"],
    ["a\u0000b", "has a control character"],
    ["a\u001b[31m", "has a control character"],
    ["a\u0085", "has a control character"],
    ["\ud83d", "has half of a surrogate pair"],
  ])("B06: %j is refused because it %s", (name, why) => {
    const error = refusal(() => {
      checkName(name, "key");
    });
    expect(error).toMatchObject({ reason: "INVALID_FIELD", metadata: { field: "key" } });
    expect(error.message).toContain(why);
    expect(error.message).toMatch(/^key: [\x20-\x7e]+$/);
  });

  test("length is counted in bytes of UTF-8", () => {
    for (const name of ["x".repeat(257), `${"ä".repeat(128)}x`]) {
      const error = refusal(() => {
        checkName(name, "key");
      });
      expect(error).toMatchObject({
        reason: "LIMIT_EXCEEDED",
        metadata: { limit: "bytes", size: "257", max: "256" },
      });
      expect(error.message.length).toBeLessThan(200);
    }
  });
});

describe("checkLabels", () => {
  test("32 labels with long names and empty values pass", () => {
    const labels = Object.fromEntries(
      Array.from({ length: 32 }, (_, index) => [`${String(index).padStart(2, "0")}${"n".repeat(62)}`, ""]),
    );
    expect(() => {
      checkLabels(labels, "labels");
      checkLabels({ a: "v".repeat(256), b: "ä" }, "labels");
    }).not.toThrow();
  });

  test("33 labels are refused with their number", () => {
    const labels = Object.fromEntries(Array.from({ length: 33 }, (_, index) => [String(index), "v"]));
    const error = refusal(() => {
      checkLabels(labels, "labels");
    });
    expect(error).toMatchObject({
      reason: "LIMIT_EXCEEDED",
      metadata: { limit: "labels", size: "33", max: "32" },
    });
  });

  test.each([
    [{ "": "v" }, /^labels name: "" is empty/],
    [{ ["n".repeat(65)]: "v" }, /^labels name: .* has 65 bytes/],
    [{ team: "v".repeat(257) }, /^labels\["team"\]: .* has 257 bytes/],
    [{ "a\u0000": "v" }, /^labels name: "a\\u0000" has a control character/],
    [{ team: "a\u0000" }, /^labels\["team"\]: "a\\u0000" has a control character/],
    [{ team: "\ud83d" }, /^labels\["team"\]: .* half of a surrogate pair/],
  ])("%j is refused", (labels, message) => {
    expect(
      refusal(() => {
        checkLabels(labels, "labels");
      }).message,
    ).toMatch(message);
  });

  test("S15: a label named __proto__ is a label like any other and reaches no prototype", () => {
    const labels = JSON.parse('{"__proto__":"x","constructor":"y"}') as Record<string, string>;
    checkLabels(labels, "labels");
    expect(Object.getPrototypeOf(labels)).toBe(Object.prototype);
    const bad = JSON.parse('{"__proto__":"\\u0000"}') as Record<string, string>;
    expect(
      refusal(() => {
        checkLabels(bad, "labels");
      }).message,
    ).toContain('labels["__proto__"]');
  });
});

describe("checkTraceparent", () => {
  const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const parent = "00f067aa0ba902b7";

  test.each(["", `00-${trace}-${parent}-01`, `cc-${trace}-${parent}-00-later`])("%j passes", (value) => {
    expect(() => {
      checkTraceparent(value);
    }).not.toThrow();
  });

  test.each([
    "x",
    `00-${trace}-${parent}`,
    `00-${trace}-${parent}-01-more`,
    `ff-${trace}-${parent}-01`,
    `00-${"0".repeat(32)}-${parent}-01`,
    `00-${trace}-${"0".repeat(16)}-01`,
    `00-${trace.toUpperCase()}-${parent}-01`,
    ` 00-${trace}-${parent}-01`,
    `00-${trace}-${parent}-01\n`,
  ])("%j is refused", (value) => {
    const error = refusal(() => {
      checkTraceparent(value);
    });
    expect(error).toMatchObject({ reason: "INVALID_FIELD", metadata: { field: "traceparent" } });
  });
});

describe("isUuid", () => {
  test("only the canonical form is one", () => {
    expect(isUuid(RUN_ID)).toBe(true);
    for (const text of ["", RUN_ID.toUpperCase(), `{${RUN_ID}}`, RUN_ID.replaceAll("-", ""), `${RUN_ID}\n`]) {
      expect(isUuid(text)).toBe(false);
    }
  });
});

describe("call ids", () => {
  test("reading what was written gives the same parts", () => {
    fc.assert(
      fc.property(fc.uuid(), fc.integer({ min: 1, max: 2 ** 31 - 1 }), (runId, seq) => {
        expect(parseCallId(formatCallId({ runId, seq }))).toEqual({ runId, seq });
      }),
    );
  });

  test.each([
    "",
    RUN_ID,
    `${RUN_ID}/`,
    `${RUN_ID}/0`,
    `${RUN_ID}/01`,
    `${RUN_ID}/-1`,
    `${RUN_ID}/1.0`,
    `${RUN_ID}/2147483648`,
    `${RUN_ID}/99999999999999999999`,
    `${RUN_ID}/1 `,
    `${RUN_ID}/1\n`,
    `${RUN_ID.toUpperCase()}/1`,
    `${"-".repeat(36)}/1`,
  ])("%j is none", (text) => {
    expect(parseCallId(text)).toBeUndefined();
  });
});

describe("tokens", () => {
  const parts = { runId: RUN_ID, seq: 7, attempt: 2, secret: SECRET };

  test("reading what was written gives the same parts", () => {
    expect(formatToken(parts)).toBe(`${RUN_ID}/7.2.${SECRET}`);
    expect(parseToken(formatToken(parts))).toEqual(parts);
  });

  test.each([
    "",
    `${RUN_ID}/7`,
    `${RUN_ID}/7.2`,
    `${RUN_ID}/7.2.`,
    `${RUN_ID}/7.0.${SECRET}`,
    `${RUN_ID}/7.02.${SECRET}`,
    `${RUN_ID}/0.2.${SECRET}`,
    `${RUN_ID}/7.2147483648.${SECRET}`,
    `${RUN_ID}/7.2.${SECRET}A`,
    `${RUN_ID}/7.2.${SECRET.slice(1)}`,
    `${RUN_ID}/7.2.${SECRET.replace("-", "+")}`,
    `${RUN_ID}/7.2.${SECRET}\n`,
  ])("S16: %j is none", (text) => {
    expect(parseToken(text)).toBeUndefined();
  });
});

describe("checkWellFormed", () => {
  test("B06: control characters and NUL pass, half a surrogate pair does not", () => {
    checkWellFormed("a\u0000\n😀", "message", 100);
    const error = refusal(() => {
      checkWellFormed("cut \ud83d", "message", 100);
    });
    expect(error).toMatchObject({ reason: "INVALID_FIELD", metadata: { field: "message" } });
  });

  test("more than the given bytes are refused with limit and size", () => {
    const error = refusal(() => {
      checkWellFormed("ä".repeat(5), "message", 9);
    });
    expect(error).toMatchObject({
      reason: "LIMIT_EXCEEDED",
      metadata: { limit: "bytes", size: "10", max: "9" },
    });
  });
});
