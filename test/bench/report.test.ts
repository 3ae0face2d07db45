import { beforeEach, expect, test, vi } from "vitest";
import { Report } from "../../bench/report.mjs";

const WHAT = { scenario: "throughput", variant: "100 callers", subject: "trunkline" };
const CALLS = { metric: "calls", unit: "calls/s" };

beforeEach(() => {
  vi.spyOn(console, "log").mockImplementation(() => undefined);
});

test("the median of a figure's samples counts", () => {
  const report = new Report();
  report.add({ ...WHAT, ...CALLS }, [30, 10, 20]);
  expect(report.results).toEqual([{ ...WHAT, ...CALLS, value: 20 }]);
  expect(report.find({ variant: "100 callers", metric: "calls" })).toBe(20);
  expect(report.find({ variant: "500 callers" })).toBeUndefined();
});

test("a metric that only some samples have is the median of those", () => {
  const report = new Report();
  const samples = [1, 2, 3].map((value) => [{ ...CALLS, value }]);
  const wal = { metric: "WAL", unit: "B/call" };
  report.addAll(WHAT, [
    ...samples.slice(0, 2),
    [
      { ...CALLS, value: 3 },
      { ...wal, value: 900 },
    ],
  ]);
  expect(report.results).toEqual([
    { ...WHAT, ...CALLS, value: 2 },
    { ...WHAT, ...wal, value: 900 },
  ]);
  report.addAll({ ...WHAT, variant: "none" }, []);
  expect(report.results).toHaveLength(2);
});
