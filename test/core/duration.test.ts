import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatDuration, parseDuration } from "../../server/src/core/duration.js";
import { TrunklineError } from "../../server/src/core/error.js";
import { LIMITS } from "../../server/src/core/limits.js";

function refusal(text: string): TrunklineError {
  try {
    parseDuration(text, "ttl");
  } catch (error) {
    if (error instanceof TrunklineError) return error;
    throw error;
  }
  return expect.fail(`${JSON.stringify(text)} was accepted`);
}

describe("parseDuration", () => {
  test.each([
    ["1ms", 1],
    ["250ms", 250],
    ["90s", 90_000],
    ["5m", 300_000],
    ["1h30m", 5_400_000],
    ["3d", 259_200_000],
    ["2w", 1_209_600_000],
    ["1w2d3h4m5s6ms", 788_645_006],
    ["1m5ms", 60_005],
    ["3650d", LIMITS.durationMs],
  ])("%s is %d milliseconds", (text, ms) => {
    expect(parseDuration(text, "ttl")).toBe(ms);
  });

  test.each([
    ["", "nothing"],
    ["30", "a bare number"],
    ["d", "a bare unit"],
    ["1.5h", "a fraction"],
    ["0s", "zero"],
    ["1h0m", "a zero part"],
    ["05m", "a leading zero"],
    ["-1h", "a negative number"],
    ["+1h", "a sign"],
    ["1h 30m", "white space between parts"],
    [" 1h", "white space before"],
    ["1h\n", "white space after"],
    ["30m1h", "ascending units"],
    ["1h1h", "a unit twice"],
    ["5ms1s", "milliseconds before seconds"],
    ["1H", "an upper-case unit"],
    ["1y", "an unknown unit"],
    ["1h30", "a bare number at the end"],
    ["1e3s", "an exponent"],
    ["٣d", "digits of another script"],
    ["3651d", "more than ten years"],
    ["3650d1ms", "a millisecond more than ten years"],
    ["999999999999w", "a number that overflows in sum"],
    [`${"9".repeat(400)}d`, "a number that is infinite"],
  ])("%j is refused as %s", (text) => {
    expect(refusal(text)).toMatchObject({ reason: "INVALID_FIELD" });
  });

  test("a refusal names the field, the value and what is allowed", () => {
    const error = refusal("30");
    expect(error.message).toMatch(/^ttl: "30" is not a duration; allowed are .*"3d".*10 years/);
    expect(error.metadata).toMatchObject({ field: "ttl" });
  });

  test("a million digits are refused at once and not repeated in the message", () => {
    const error = refusal("1".repeat(1_000_000));
    expect(error.message.length).toBeLessThan(300);
  });
});

describe("formatDuration", () => {
  test.each([
    [1, "1ms"],
    [60_000, "1m"],
    [5_400_000, "1h30m"],
    [30 * 86_400_000, "30d"],
    [90_061_001, "1d1h1m1s1ms"],
  ])("%d milliseconds are %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  test("what is not a positive number is shown as 0ms and cannot be read back", () => {
    expect([0, -5, 0.2, Number.NaN].map(formatDuration)).toEqual(["0ms", "0ms", "0ms", "0ms"]);
    expect(refusal("0ms").reason).toBe("INVALID_FIELD");
  });

  test("reading what was written gives the same duration", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: LIMITS.durationMs }), (ms) => {
        expect(parseDuration(formatDuration(ms), "ttl")).toBe(ms);
      }),
    );
  });
});
