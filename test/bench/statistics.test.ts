import { expect, test } from "vitest";
import { median, percentile, rounded } from "../../bench/statistics.mjs";

test("a percentile does not depend on the order of the samples", () => {
  const samples = Array.from({ length: 100 }, (_, index) => (index * 37) % 100);
  expect(percentile(samples, 0.5)).toBe(50);
  expect(percentile(samples, 0.99)).toBe(99);
  expect(percentile(samples, 1)).toBe(99);
  expect(median([9, 1, 10])).toBe(9);
});

test("a figure has three digits, or thousands marked", () => {
  expect([0.01234, 2, 2.125, 99.94, 1_234.5].map(rounded)).toEqual(["0.0123", "2", "2.13", "99.9", "1,235"]);
  expect(rounded(Number.NaN)).toBe("–");
});
