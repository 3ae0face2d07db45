import { FailureKind } from "@trunkline/proto/model";
import { describe, expect, test } from "vitest";
import { HostToolError, TrunklineError } from "../../client/src/errors.js";
import { failureOfResult, failureOfThrown, storableText } from "../../client/src/failure.js";

const bytes = (text: string): number => Buffer.byteLength(text);

describe("storableText", () => {
  test.each(["a", "é", "€", "😀"])("a text of %s is cut between characters, to the limit at most", (unit) => {
    for (const max of [20, 21, 22, 23, 24]) {
      const cut = storableText(unit.repeat(100), max);
      expect(bytes(cut)).toBeLessThanOrEqual(max);
      expect(bytes(cut)).toBeGreaterThan(max - bytes(unit));
      expect(cut.isWellFormed()).toBe(true);
      expect(cut).toBe(unit.repeat((bytes(cut) - 3) / bytes(unit)) + "…");
    }
  });

  test("halves of surrogate pairs and NUL are replaced, whole emoji are kept", () => {
    expect(storableText("a\ud83d b\udc00 c\0 😀", 100)).toBe("a\ufffd b\ufffd c\ufffd 😀");
  });
});

describe("failureOfThrown", () => {
  test("a HostToolError is said as it is", () => {
    const error = new HostToolError("card declined", { data: { code: 51 }, retryable: true });
    expect(failureOfThrown(error)).toMatchObject({
      unexpected: false,
      failure: { kind: FailureKind.TOOL, message: "card declined", dataJson: '{"code":51}', retryable: true },
    });
  });

  test("data that cannot be sent is dropped, and the message says so", () => {
    const { failure } = failureOfThrown(new HostToolError("no", { data: { price: NaN } }));
    expect(failure).toMatchObject({ dataJson: "" });
    expect(failure.message).toBe("no (its data was dropped: data.price is NaN, which JSON cannot carry)");
    const large = failureOfThrown(new HostToolError("m".repeat(9000), { data: "x".repeat(70_000) })).failure;
    expect(large.message).toContain("(its data was dropped: data has 70002 bytes; allowed are at most 65536");
    expect(bytes(large.message)).toBeLessThanOrEqual(8 * 1024);
  });

  test.each([
    [new TypeError("x is not a function"), "TypeError: x is not a function"],
    ["boom", "boom (a string was thrown, not an Error)"],
    [undefined, "undefined was thrown, not an Error"],
    [Object.freeze(new Error("cold")), "Error: cold"],
  ])("%o is an exception whose message says what it was", (thrown, message) => {
    expect(failureOfThrown(thrown)).toMatchObject({
      unexpected: true,
      failure: { kind: FailureKind.EXCEPTION, message, retryable: false },
    });
  });

  test("a HostToolError whose getters throw is an exception like any other", () => {
    const error = new HostToolError("x");
    Object.defineProperty(error, "message", {
      get: () => {
        throw new Error("y");
      },
    });
    expect(failureOfThrown(error).failure.kind).toBe(FailureKind.EXCEPTION);
  });
});

test("a result that is too large is oversized, one that is no JSON is an invalid answer", () => {
  const large = new TrunklineError("LIMIT_EXCEEDED", "large", { metadata: { limit: "bytes" } });
  expect(failureOfResult(large).kind).toBe(FailureKind.OVERSIZED);
  expect(failureOfResult(new TrunklineError("INVALID_JSON", "odd")).kind).toBe(FailureKind.INVALID_ANSWER);
});
