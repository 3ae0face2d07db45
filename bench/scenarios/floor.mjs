// What nobody can beat on this machine: the database without the wire, the wire without the database.
import { onStage } from "../stage/stack.mjs";
import { startProgram } from "../stage/program.mjs";
import { percentile } from "../statistics.mjs";

const BATCH_SIZES = [1, 10, 100, 500];
const ECHO_CALLERS = [100, 500];
const PAUSES_MS = [0, 20];
const paused = (pauseMs) => (pauseMs === 0 ? "back to back" : `${pauseMs} ms apart`);

/** @param {import("../scenarios.mjs").Setting} setting */
export async function floor(setting) {
  await onStage((stage) => database(setting, stage));
  await onStage((stage) => echo(setting, stage));
}

/** The two statements of a call's life by themselves, and commits of one row. */
async function database({ postgres, report, options }, stage) {
  const { url } = await stage.database(postgres.url);
  const program = await stage.start(startProgram("database-floor", { url }));
  await program.ask("batches", { size: 100, seconds: 1 });
  const figure = { scenario: "floor", subject: "floor" };
  for (const size of BATCH_SIZES) {
    const rates = await sampled(options.runs, async () => {
      const { calls, seconds } = await program.ask("batches", { size, seconds: options.quick ? 2 : 5 });
      return calls / seconds;
    });
    const variant = `two statements, batches of ${size}`;
    report.add({ ...figure, variant, metric: "calls", unit: "calls/s" }, rates);
  }
  await latencies({ report, options }, program, "single", "two statements, one call");
  await latencies({ report, options }, program, "commit", "single-row commit");
}

/** The same frames over the same two streams, and nothing stored. */
async function echo({ report, options }, stage) {
  const server = await stage.start(startProgram("echo-server", {}));
  const { url } = server.ready;
  await stage.start(startProgram("echo-worker", { url }));
  const opener = await stage.start(startProgram("echo-opener", { url }));
  await opener.ask("callers", { callers: 100, seconds: 1 });
  for (const callers of ECHO_CALLERS) {
    const rates = await sampled(options.runs, async () => {
      const { calls, seconds } = await opener.ask("callers", { callers, seconds: options.quick ? 2 : 5 });
      return calls / seconds;
    });
    const figure = { scenario: "floor", subject: "floor", metric: "calls", unit: "calls/s" };
    report.add({ ...figure, variant: `echo, ${callers} callers` }, rates);
  }
  await latencies({ report, options }, opener, "latency", "echo, one call");
}

async function latencies({ report, options }, program, job, name) {
  await program.ask(job, { calls: 100, pauseMs: 0 });
  for (const pauseMs of PAUSES_MS) {
    const runs = await sampled(options.runs, async () => {
      const { ms } = await program.ask(job, { calls: options.quick ? 100 : 300, pauseMs });
      return { p50: percentile(ms, 0.5), p99: percentile(ms, 0.99) };
    });
    const variant = `${name}, ${paused(pauseMs)}`;
    const figure = { scenario: "floor", variant, subject: "floor", unit: "ms" };
    for (const metric of ["p50", "p99"]) {
      report.add(
        { ...figure, metric },
        runs.map((run) => run[metric]),
      );
    }
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
