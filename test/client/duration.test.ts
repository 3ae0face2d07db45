import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatDuration, parseDuration } from "../../client/src/duration.js";
import { LIMITS } from "../../client/src/limits.js";
import { parseDuration as parseOnServer } from "../../server/src/core/duration.js";

describe("parseDuration", () => {
  test.each([
    ["250ms", 250],
    ["3d", 3 * 86_400_000],
    ["1h30m", 5_400_000],
    ["2w1d", 15 * 86_400_000],
    ["3650d", LIMITS.durationMs],
  ])("%s is %d ms", (text, ms) => {
    expect(parseDuration(text, "ttl")).toBe(ms);
  });

  test.each(["", "5", "0s", "-1s", "1.5h", "1m1h", "1s1s", "1 h", "3651d", "1y", "01s"])(
    "%j is refused with the grammar",
    (text) => {
      expect(() => parseDuration(text, "ttl")).toThrow(
        /^ttl: .*allowed are positive whole numbers with a unit/,
      );
    },
  );

  test("a bare number is refused, because it does not say its unit", () => {
    expect(() => parseDuration(5000, "timeout")).toThrow(/^timeout: 5000 has no unit/);
    expect(() => parseDuration(null, "timeout")).toThrow(/is not a duration/);
  });

  test("the SDK and the server read every text alike", () => {
    const part = fc.tuple(
      fc.integer({ min: 0, max: 99 }),
      fc.constantFrom("ms", "s", "m", "h", "d", "w", "y"),
    );
    const read = (parse: () => number): number | string => {
      try {
        return parse();
      } catch (error) {
        return error instanceof Error ? error.message : "?";
      }
    };
    fc.assert(
      fc.property(fc.array(part, { maxLength: 4 }), (parts) => {
        const text = parts.map(([count, unit]) => `${count}${unit}`).join("");
        expect(read(() => parseDuration(text, "x"))).toEqual(read(() => parseOnServer(text, "x")));
      }),
    );
  });

  test("what is written is read back", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: LIMITS.durationMs }), (ms) => {
        expect(parseDuration(formatDuration(ms), "x")).toBe(ms);
      }),
    );
  });
});
