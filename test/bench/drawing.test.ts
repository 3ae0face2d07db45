import { describe, expect, test } from "vitest";
import { barsOf, drawing, THEMES } from "../../bench/drawing.mjs";
import { comparison, figure, runOf, SUBJECTS } from "./support/results.js";

const textsOf = (svg: string | undefined): string[] =>
  [...(svg ?? "").matchAll(/<text[^>]*>([^<]+)<\/text>/g)].map(([, text = ""]) => text);

describe("the chart", () => {
  test("names every subject and its figure in every panel, and the machine and the commit", () => {
    const texts = textsOf(drawing(runOf(comparison()), THEMES.light));
    for (const subject of SUBJECTS) expect(texts.filter((text) => text === subject)).toHaveLength(4);
    for (const label of ["12,345", "9,876", "23,456", "2.25 · 5.75"]) expect(texts).toContain(label);
    expect(texts).toContain("2 × A &amp; B; commit abc1234; medians of 3 runs.");
  });

  test("leaves out what a run did not measure, and is none where it measured nothing of it", () => {
    const texts = textsOf(drawing(runOf([figure({ value: 5_678 })]), THEMES.light));
    expect(texts).toContain("5,678");
    expect(texts).not.toContain("One call every 20 ms, open to result");
    expect(drawing(runOf([figure({ scenario: "idle", variant: "x" })]), THEMES.light)).toBeUndefined();
  });

  test("has its own ground on light and on dark pages", () => {
    for (const theme of Object.values(THEMES)) {
      expect(drawing(runOf(comparison()), theme)).toContain(`height="100%" fill="${theme.ground}"`);
    }
  });

  test("gives a bar the pale end of its own subject", () => {
    const of = (metric: string) => ({ variant: "20 ms apart", metric });
    const panel = { near: of("open to result, p50"), far: of("open to result, p99") };
    expect(barsOf(comparison(), panel)[1]).toEqual({ subject: "graphile-worker", value: 3.25, far: 6.75 });
  });
});
