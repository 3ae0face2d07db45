// What the gate looks at: figures of Trunkline beside those of the floors in the same run.

/**
 * @typedef {object} Ratio
 * @property {string} name
 * @property {"more" | "less"} better
 * @property {(report: import("./report.mjs").Report) => number} of
 */

const FLOOR = { scenario: "floor", subject: "floor" };
const SINGLE = { ...FLOOR, metric: "p50" };
const TRUNKLINE = { subject: "trunkline" };

/** A figure of the run. */
function figure(report, what) {
  const value = report.find(what);
  if (value === undefined) throw new Error(`the run has no figure ${JSON.stringify(what)}`);
  return value;
}

const callsWith = (report, callers) =>
  figure(report, { scenario: "throughput", variant: `${callers} callers`, metric: "calls", ...TRUNKLINE });

const floorOf = (report, variant) => figure(report, { ...FLOOR, variant, metric: "calls" });

const latencyOf = (report, variant) =>
  figure(report, { scenario: "latency", variant, metric: "open to result, p50", ...TRUNKLINE });

const lowestLatency = (report, variant) =>
  figure(report, { ...SINGLE, variant: `two statements, one call, ${variant}` }) +
  figure(report, { ...SINGLE, variant: `echo, one call, ${variant}` });

/** @type {readonly Ratio[]} */
export const RATIOS = [
  {
    name: "calls/s with 100 callers, of the two statements in batches of 100",
    better: "more",
    of: (report) => callsWith(report, 100) / floorOf(report, "two statements, batches of 100"),
  },
  {
    name: "calls/s with 500 callers, of the two statements in batches of 100",
    better: "more",
    of: (report) => callsWith(report, 500) / floorOf(report, "two statements, batches of 100"),
  },
  {
    name: "calls/s with 500 callers, of the echo without a store",
    better: "more",
    of: (report) => callsWith(report, 500) / floorOf(report, "echo, 500 callers"),
  },
  {
    name: "open to result back to back, of the two statements and the echo",
    better: "less",
    of: (report) => latencyOf(report, "back to back") / lowestLatency(report, "back to back"),
  },
  {
    name: "open to result 20 ms apart, of the two statements and the echo",
    better: "less",
    of: (report) => latencyOf(report, "20 ms apart") / lowestLatency(report, "20 ms apart"),
  },
];
