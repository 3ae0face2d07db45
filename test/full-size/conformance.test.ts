import { expect, test } from "vitest";
import { SCENARIOS } from "../../server/src/conformance/catalog.js";
import { failures } from "../conformance/broken/failures.js";
import { MISTAKES, type Mistake } from "../conformance/broken/mistakes.mjs";

const NAMES = Object.keys(MISTAKES) as Mistake[];
const ALL = SCENARIOS.map(({ number }) => number);
const JOBS = 6;
const LIMIT = { timeout: 180_000 };

test("the worker by hand passes every scenario while nothing is wrong with it", LIMIT, async () => {
  expect(await failures("", ALL, JOBS)).toEqual([]);
});

test.each(NAMES)("%s: fails where it has to, and nowhere else", LIMIT, async (name) => {
  const found = await failures(name, ALL, JOBS);
  expect(found.map(({ number }) => number)).toEqual([...MISTAKES[name].caughtBy].sort((a, b) => a - b));
});
