import { check } from "prettier";
import { describe, expect, test } from "vitest";
import { lead, page } from "../../bench/page.mjs";
import { comparison, figure, runOf } from "./support/results.js";

const p50 = { scenario: "latency", variant: "20 ms apart", metric: "open to result, p50", unit: "ms" };

describe("the page of results", () => {
  test("is Markdown that the formatter would not change, with a table for each scenario", async () => {
    const text = page(runOf([...comparison(), figure({ scenario: "floor", subject: "floor" })]));
    expect(await check(text, { parser: "markdown" })).toBe(true);
    expect(text.match(/^## .*/gm)).toEqual([
      "## Where peers are ahead",
      "## throughput",
      "## latency",
      "## floor",
    ]);
    expect(text).toContain("2 × A & B; commit abc1234; medians of 3 runs; pg-boss 10.4.2.");
  });

  test("says where a peer is ahead: with more calls a second, or with less latency", () => {
    const results = [
      figure({ value: 1_000 }),
      figure({ subject: "dbos", value: 1_001 }),
      figure({ subject: "pg-boss", value: 999 }),
      figure({ subject: "dbos", variant: "another", value: 2_000 }),
      figure({ ...p50, value: 2 }),
      figure({ ...p50, subject: "dbos", value: 3 }),
      figure({ ...p50, subject: "pg-boss", value: 1.5 }),
    ];
    expect(lead(results).split("\n")).toEqual([
      "- dbos, 100 callers: 1,001 calls/s against 1,000 calls/s",
      "- pg-boss, 20 ms apart: open to result, p50, 1.5 ms against 2 ms",
    ]);
  });

  test("says so when no peer is ahead", () => {
    expect(lead(comparison())).toBe("Nowhere in this run.");
  });
});
