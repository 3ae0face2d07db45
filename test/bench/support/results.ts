import type { Figure } from "../../../bench/report.mjs";
import type { Run } from "../../../bench/drawing.mjs";

/** The subjects of a run with all peers. */
export const SUBJECTS = [
  "trunkline",
  "graphile-worker",
  "pg-boss",
  "dbos",
  "bullmq, fsync always",
  "bullmq, fsync everysec",
];

/** A figure; what is not given is that of throughput with 100 callers. */
export function figure(some: Partial<Figure>): Figure {
  const defaults = { scenario: "throughput", variant: "100 callers", subject: "trunkline" };
  return { ...defaults, metric: "calls", value: 1_000, unit: "calls/s", ...some };
}

/** A run with these results. */
export function runOf(results: Figure[]): Run {
  return { machine: "2 × A & B", commit: "abc1234", runs: 3, versions: { "pg-boss": "10.4.2" }, results };
}

/** What every subject came to in all that the chart shows. */
export function comparison(): Figure[] {
  return SUBJECTS.flatMap((subject, index) => {
    const latency = { scenario: "latency", variant: "20 ms apart", subject, unit: "ms" };
    return [
      figure({ subject, value: 12_345 - 1_000 * index }),
      figure({ subject, variant: "100 in flight, unawaited", value: 9_876 - 1_000 * index }),
      figure({ subject, variant: "batch of 20,000", value: 23_456 - 1_000 * index }),
      figure({ ...latency, metric: "open to result, p50", value: 2.25 + index }),
      figure({ ...latency, metric: "open to result, p99", value: 5.75 + index }),
    ];
  });
}
