// How many calls a second, in each of the ways in which one can open many. Every sample has a stack of its own.
import { countersSettled } from "../stage/database.mjs";
import { cpuOf, onStage, subjectStack, trunkline } from "../stage/stack.mjs";
import { byTurns } from "../turns.mjs";
import { LOAD_WARM_UP_SECONDS } from "../warm-up.mjs";

/** With how many callers the peers are compared. */
export const COMPARED_CALLERS = 100;
const IN_FLIGHT = 100;
const SECONDS = 4;
const QUICK_SECONDS = 3;
const BATCH = 20_000;
const QUICK_BATCH = 5_000;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function throughput(setting) {
  const all = [trunkline, ...setting.peers];
  await awaited(setting, COMPARED_CALLERS, all);
  for (const callers of [500, 1_000]) await awaited(setting, callers, [trunklineFor(callers)]);
  await unawaited(setting, all);
  await bulk(setting, all);
}

/** With a handler for every caller. */
export const trunklineFor = (callers) => ({ ...trunkline, settings: { concurrency: callers } });

const lasting = ({ quick }) => ({ seconds: quick ? QUICK_SECONDS : SECONDS });
const rate = (value) => ({ metric: "calls", unit: "calls/s", value });

/**
 * Takes samples by turns, each on a fresh stack, and reports them.
 *
 * @param {import("../scenarios.mjs").Setting} setting
 * @param {readonly import("../peers.mjs").Contestant[]} contestants
 * @param {{ variant: string, load: import("../subjects/subject.mjs").Load, callers: number }} what
 * @param {(stack: any, run: number) => Promise<import("../report.mjs").Measured[]>} sample
 */
async function compare({ postgres, report, options }, contestants, { variant, load, callers }, sample) {
  const samples = await byTurns(options.runs, contestants, (contestant, run) =>
    onStage(async (stage) => sample(await subjectStack(stage, postgres, contestant, { load, callers }), run)),
  );
  for (const [{ subject }, each] of samples) {
    report.addAll({ scenario: "throughput", variant, subject }, each);
  }
}

/**
 * Callers that await their results; of Trunkline also what a call costs each process and the database.
 *
 * @param {import("../scenarios.mjs").Setting} setting
 * @param {number} callers
 * @param {readonly import("../peers.mjs").Contestant[]} contestants
 */
export async function awaited(setting, callers, contestants) {
  const { options } = setting;
  const variant = `${callers.toLocaleString("en")} callers`;
  await compare(setting, contestants, { variant, load: "awaited", callers }, async (stack, run) => {
    const { opener, server } = stack;
    await opener.ask("callers", { seconds: LOAD_WARM_UP_SECONDS });
    const work = () => opener.ask("callers", lasting(options));
    if (server !== undefined) return costed(stack, work, !options.quick && run === options.runs - 1);
    const { calls, seconds } = await work();
    return [rate(calls / seconds)];
  });
}

/** A rate with its costs; those that PostgreSQL counts, which are slow to be seen, only where that is asked. */
async function costed(stack, work, isCounted) {
  const counters = async () => {
    if (!isCounted) return {};
    await countersSettled();
    return stack.database.counters();
  };
  const countedBefore = await counters();
  const before = await cpuOf(stack);
  const { calls, seconds } = await work();
  const after = await cpuOf(stack);
  const counted = await counters();
  const cpu = Object.keys(after).map((name) => ({
    metric: `CPU, ${name}`,
    unit: "µs/call",
    value: ((after[name] - before[name]) / calls) * 1e6,
  }));
  const stored = Object.keys(counted).map((name) => ({
    metric: { versions: "row versions", commits: "commits", wal: "WAL" }[name],
    unit: name === "wal" ? "B/call" : "/call",
    value: (counted[name] - countedBefore[name]) / calls,
  }));
  return [rate(calls / seconds), ...cpu, ...stored];
}

/**
 * Opens in flight whose results nobody waits for, from the first open to the last result.
 *
 * @param {import("../scenarios.mjs").Setting} setting
 * @param {readonly import("../peers.mjs").Contestant[]} contestants
 */
export async function unawaited(setting, contestants) {
  const variant = `${IN_FLIGHT} in flight, unawaited`;
  await compare(setting, contestants, { variant, load: "unawaited", callers: IN_FLIGHT }, async (stack) => {
    await handled(stack, "opens", { seconds: LOAD_WARM_UP_SECONDS });
    return [rate(await handled(stack, "opens", lasting(setting.options)))];
  });
}

/**
 * Many at once, from the first open to the last result; the second time.
 *
 * @param {import("../scenarios.mjs").Setting} setting
 * @param {readonly import("../peers.mjs").Contestant[]} contestants
 */
export async function bulk(setting, contestants) {
  const calls = setting.options.quick ? QUICK_BATCH : BATCH;
  const variant = `batch of ${calls.toLocaleString("en")}`;
  await compare(setting, contestants, { variant, load: "bulk", callers: 1 }, async (stack) => {
    await handled(stack, "batch", { calls });
    return [rate(await handled(stack, "batch", { calls }))];
  });
}

/** Calls a second of a job, from the first open until all have ended. */
async function handled({ opener, worker }, job, options) {
  const before = (await worker.ask("count")).handled;
  const startedAt = performance.now();
  const { calls = options.calls } = await opener.ask(job, options);
  await worker.ask("reach", { calls: before + calls });
  await opener.ask("drained");
  return calls / ((performance.now() - startedAt) / 1_000);
}
