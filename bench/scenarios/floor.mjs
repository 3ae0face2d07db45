// What nobody can beat on this machine: the database without the wire, the wire without the database.
import { onStage } from "../stage/stack.mjs";
import { startProgram } from "../stage/program.mjs";
import { percentile } from "../statistics.mjs";
import { LOAD_WARM_UP_SECONDS, LONE_WARM_UP } from "../warm-up.mjs";

const BATCH_SIZES = [1, 10, 100, 500];
const ECHO_CALLERS = [100, 500];
const PAUSES_MS = [0, 20];
const FIGURE = { scenario: "floor", subject: "floor" };
const paused = (pauseMs) => (pauseMs === 0 ? "back to back" : `${pauseMs} ms apart`);
const seconds = ({ quick }) => (quick ? 2 : 4);

/** @param {import("../scenarios.mjs").Setting} setting */
export async function floor(setting) {
  await databaseFloor(setting, BATCH_SIZES, true);
  await echoFloor(setting, ECHO_CALLERS);
}

/**
 * The two statements of a call's life by themselves, and commits of one row.
 *
 * @param {import("../scenarios.mjs").Setting} setting
 * @param {readonly number[]} sizes Of the batches.
 * @param {boolean} withCommits
 */
export async function databaseFloor({ postgres, report, options }, sizes, withCommits) {
  await onStage(async (stage) => {
    const { url } = await stage.database(postgres.url);
    const program = await stage.start(startProgram("database-floor", { url }));
    await program.ask("batches", { size: 100, seconds: LOAD_WARM_UP_SECONDS });
    for (const size of sizes) {
      const rates = await sampled(options.runs, async () => {
        const { calls, seconds: took } = await program.ask("batches", { size, seconds: seconds(options) });
        return calls / took;
      });
      const variant = `two statements, batches of ${size}`;
      report.add({ ...FIGURE, variant, metric: "calls", unit: "calls/s" }, rates);
    }
    await loneTimes({ report, options }, program, "single", "two statements, one call");
    if (withCommits) await loneTimes({ report, options }, program, "commit", "single-row commit");
  });
}

/**
 * The same frames over the same two streams, and nothing stored.
 *
 * @param {import("../scenarios.mjs").Setting} setting
 * @param {readonly number[]} callerCounts
 */
export async function echoFloor({ report, options }, callerCounts) {
  await onStage(async (stage) => {
    const server = await stage.start(startProgram("echo-server", {}));
    const { url } = server.ready;
    await stage.start(startProgram("echo-worker", { url }));
    const opener = await stage.start(startProgram("echo-opener", { url }));
    await opener.ask("callers", { callers: 100, seconds: LOAD_WARM_UP_SECONDS });
    for (const callers of callerCounts) {
      const rates = await sampled(options.runs, async () => {
        const { calls, seconds: took } = await opener.ask("callers", { callers, seconds: seconds(options) });
        return calls / took;
      });
      const figure = { ...FIGURE, metric: "calls", unit: "calls/s" };
      report.add({ ...figure, variant: `echo, ${callers} callers` }, rates);
    }
    await loneTimes({ report, options }, opener, "latency", "echo, one call");
  });
}

async function loneTimes({ report, options }, program, job, name) {
  await program.ask(job, { calls: LONE_WARM_UP.most, seconds: LONE_WARM_UP.seconds, pauseMs: 0 });
  for (const pauseMs of PAUSES_MS) {
    const samples = await sampled(options.runs, async () => {
      const { ms } = await program.ask(job, { calls: options.loneCalls, pauseMs });
      return [
        { metric: "p50", unit: "ms", value: percentile(ms, 0.5) },
        { metric: "p99", unit: "ms", value: percentile(ms, 0.99) },
      ];
    });
    report.addAll({ ...FIGURE, variant: `${name}, ${paused(pauseMs)}` }, samples);
  }
}

/**
 * @template T
 * @param {number} runs
 * @param {() => Promise<T>} measure
 */
async function sampled(runs, measure) {
  /** @type {T[]} */
  const samples = [];
  for (let run = 0; run < runs; run++) samples.push(await measure());
  return samples;
}
