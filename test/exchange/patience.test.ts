import { describe, expect, test } from "vitest";
import { Patience } from "../../server/src/exchange/patience.js";

describe("Patience", () => {
  test("lasts as long as workers take hundreds in each tenth of a second", () => {
    const patience = new Patience();
    for (let ms = 0; ms <= 1_000; ms += 3) expect(patience.isWorthwhile(ms * 4, ms), `at ${ms}`).toBe(true);
  });

  test("is over after a tenth of a second in which they took few, for a second; then it is tried again", () => {
    const patience = new Patience();
    expect(patience.isWorthwhile(1_000, 0)).toBe(true);
    expect(patience.isWorthwhile(1_299, 99)).toBe(true);
    expect(patience.isWorthwhile(1_299, 100)).toBe(false);
    expect(patience.isWorthwhile(9_000, 1_000)).toBe(false);
    expect(patience.isWorthwhile(9_000, 1_100)).toBe(true);
    expect(patience.isWorthwhile(9_000, 1_150)).toBe(true);
    expect(patience.isWorthwhile(9_299, 1_200)).toBe(false);
  });

  test("begins anew where nothing had to wait for a while", () => {
    const patience = new Patience();
    expect(patience.isWorthwhile(0, 0)).toBe(true);
    expect(patience.isWorthwhile(10, 201)).toBe(true);
    expect(patience.isWorthwhile(10, 300)).toBe(true);
  });
});
