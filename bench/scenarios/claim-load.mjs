// Three looks at how fast calls reach a worker, for scenarios that compare a full table with an empty one.
import { startOpener, startWorker } from "../stage/stack.mjs";
import { percentile } from "../statistics.mjs";

const CALLERS = 500;
const QUEUED = 200;

/**
 * Calls a second with many callers; open to start of a lone call; and the time between starts where each call is
 * claimed out of the queue after the one before it.
 *
 * @param {import("../stage/stack.mjs").Stage} stage
 * @param {{ url: string }} server
 * @param {import("../options.mjs").Options} options
 */
export async function claimLoad(stage, { url }, options) {
  const worker = await startWorker(stage, { url, concurrency: CALLERS });
  const opener = await startOpener(stage, { url, callers: CALLERS });
  await opener.ask("callers", { seconds: 2 });
  const { calls, seconds } = await opener.ask("callers", { seconds: options.quick ? 3 : 5 });
  await worker.ask("starts");
  const { openedAt } = await opener.ask("latency", { calls: options.quick ? 100 : 400, pauseMs: 20 });
  const { times } = await worker.ask("starts");
  await worker.stop();
  const starts = times.map((time, call) => time - openedAt[call]);
  const gaps = await queuedGaps(stage, url, opener);
  await opener.stop();
  return {
    "calls, calls/s": calls / seconds,
    "open to start, p50, ms": percentile(starts, 0.5),
    "open to start, p99, ms": percentile(starts, 0.99),
    "from queue to next start, p50, ms": percentile(gaps, 0.5),
    "from queue to next start, p99, ms": percentile(gaps, 0.99),
  };
}

/** One slot, and calls that queue for it. */
async function queuedGaps(stage, url, opener) {
  const worker = await startWorker(stage, { url, concurrency: 1 });
  await opener.ask("batch", { calls: QUEUED });
  await worker.ask("reach", { calls: QUEUED });
  await opener.ask("drained");
  const { times } = await worker.ask("starts");
  await worker.stop();
  return times.slice(1).map((time, index) => time - times[index]);
}

/**
 * Adds what {@link claimLoad} found to the report.
 *
 * @param {import("../report.mjs").Report} report
 * @param {string} scenario
 * @param {string} variant
 * @param {Record<string, number>} found
 */
export function reportLoad(report, scenario, variant, found) {
  for (const [name, value] of Object.entries(found)) {
    const cut = name.lastIndexOf(", ");
    const [metric, unit] = [name.slice(0, cut), name.slice(cut + 2)];
    report.add({ scenario, variant, subject: "trunkline", metric, unit }, [value]);
  }
}
