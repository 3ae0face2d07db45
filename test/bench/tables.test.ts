import { check } from "prettier";
import { describe, expect, test } from "vitest";
import { markdownTable, tablesOf, textTable } from "../../bench/tables.mjs";
import { comparison, figure, SUBJECTS } from "./support/results.js";

const results = [
  ...comparison(),
  figure({ metric: "CPU, PostgreSQL", unit: "µs/call", value: 41.23 }),
  figure({ metric: "WAL", unit: "B/call", value: 1_234.5 }),
  figure({ metric: "commits", unit: "/call", value: 0.04 }),
  figure({ scenario: "idle", variant: "1,000 workers", subject: "floor", metric: "memory", unit: "KB" }),
];

describe("tables of results", () => {
  test("have one column for each subject that the scenario measured, and no other", () => {
    const tables = tablesOf(results);
    expect(tables.map(({ scenario }) => scenario)).toEqual(["throughput", "latency", "idle"]);
    expect(tables.map(({ subjects }) => subjects)).toEqual([SUBJECTS, SUBJECTS, ["floor"]]);
  });

  test("have all of a variant together, and nothing where a subject has no such figure", () => {
    const [throughput] = tablesOf(results);
    const rows = throughput?.rows.filter(({ variant }) => variant === "100 callers");
    expect(rows?.map(({ what }) => what)).toEqual([
      "calls/s",
      "CPU, PostgreSQL, µs/call",
      "WAL, B/call",
      "commits/call",
    ]);
    expect(rows?.[0]?.values).toEqual(["12,345", "11,345", "10,345", "9,345", "8,345", "7,345"]);
    expect(rows?.[1]?.values).toEqual(["41.2", "", "", "", "", ""]);
  });

  test("fit into 120 columns of a terminal with every peer", () => {
    const lines = tablesOf(results).flatMap((table) => textTable(table).split("\n"));
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(120);
    expect(lines[1]?.split(/\s{2,}/)).toEqual([
      "throughput",
      "trunkline",
      "worker",
      "boss",
      "dbos",
      "fsync always",
      "fsync everysec",
    ]);
  });

  test("are Markdown that the formatter would not change", async () => {
    for (const table of tablesOf(results)) {
      expect(await check(`${markdownTable(table)}\n`, { parser: "markdown" })).toBe(true);
    }
  });
});
