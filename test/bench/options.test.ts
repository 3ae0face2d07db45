import { expect, test } from "vitest";
import { readOptions } from "../../bench/options.mjs";

test("a list of scenarios or peers may follow its option, or be named one by one", () => {
  const together = readOptions(["--scenario", "floor", "latency", "--peer", "bullmq", "dbos", "--quick"]);
  const single = ["--scenario", "floor", "--scenario", "latency", "--peer", "bullmq", "--peer", "dbos"];
  expect(together).toEqual(readOptions(["--quick", ...single]));
  expect(together).toMatchObject({ scenarios: ["floor", "latency"], peers: ["bullmq", "dbos"] });
});

test("no list means everything, and the peer none means no peer", () => {
  expect(readOptions([])).toMatchObject({ scenarios: [], peers: undefined, json: undefined });
  expect(readOptions(["--peer", "none"]).peers).toEqual([]);
});

test("only a quick run does without medians and without 300 calls one at a time", () => {
  expect(readOptions([])).toMatchObject({ runs: 3, loneCalls: 300 });
  expect(readOptions(["--quick"]).runs).toBe(1);
});

test("a number of rows may mark its thousands", () => {
  expect(readOptions(["--rows", "1_000_000"]).rows).toBe(1_000_000);
  expect(readOptions(["--rows", "1,000"]).rows).toBe(1_000);
});
