import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { RATIOS } from "../../bench/ratios.mjs";
import { Report } from "../../bench/report.mjs";

test("the gate has a stored value for every ratio that it looks at, and for no other", async () => {
  const file = new URL("../../bench/ratios.json", import.meta.url);
  const { ratios } = JSON.parse(await readFile(file, "utf8")) as { ratios: Record<string, number> };
  expect(Object.keys(ratios)).toEqual(RATIOS.map(({ name }) => name));
});

test("a ratio whose figures were not measured is an error, not a pass", () => {
  for (const { of } of RATIOS) expect(() => of(new Report())).toThrow("the run has no figure");
});
