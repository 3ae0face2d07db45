// How many calls a second, in each of the ways in which one can open many.
import { countersSettled } from "../stage/database.mjs";
import { cpuOf, onStage, startOpener, startWorker, trunklineStack } from "../stage/stack.mjs";

const IN_FLIGHT = 100;
const PEER_CALLERS = 100;
/** Handlers at once where results are not awaited, for every subject. */
const UNAWAITED_CONCURRENCY = 500;
const WARM_UP_SECONDS = 2;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function throughput(setting) {
  const { peers } = setting;
  for (const callers of [100, 500, 1_000]) await trunklineCallers(setting, callers);
  await trunklineUnawaited(setting);
  for (const peer of peers) await measurePeer(setting, peer);
}

const callersVariant = (callers) => `${callers.toLocaleString("en")} callers`;
const seconds = ({ quick }) => (quick ? 3 : 8);

/**
 * Callers that await their results, with what a call costs each process.
 *
 * @param {import("../scenarios.mjs").Setting} setting
 * @param {number} callers
 */
export async function trunklineCallers({ postgres, report, options }, callers) {
  await onStage(async (stage) => {
    const stack = await trunklineStack(stage, postgres, { callers, concurrency: callers });
    await stack.opener.ask("callers", { seconds: WARM_UP_SECONDS });
    const samples = [];
    for (let run = 0; run < options.runs; run++) samples.push(await costedRun(stack, options));
    const figures = { scenario: "throughput", variant: callersVariant(callers), subject: "trunkline" };
    for (const { metric, unit } of samples[0]) {
      const values = samples.map((sample) => sample.find((each) => each.metric === metric).value);
      report.add({ ...figures, metric, unit }, values);
    }
  });
}

async function costedRun(stack, options) {
  const { opener, database } = stack;
  const counted = await counters(database, options);
  const before = await cpuOf(stack);
  const { calls, seconds: took } = await opener.ask("callers", { seconds: seconds(options) });
  const after = await cpuOf(stack);
  const counts = await counters(database, options);
  const cpu = Object.keys(after).map((name) => ({
    metric: `CPU, ${name}`,
    unit: "µs/call",
    value: ((after[name] - before[name]) / calls) * 1e6,
  }));
  const stored = Object.keys(counts).map((name) => ({
    metric: { versions: "row versions", commits: "commits", wal: "WAL" }[name],
    unit: name === "wal" ? "B/call" : "/call",
    value: (counts[name] - counted[name]) / calls,
  }));
  return [{ metric: "calls", unit: "calls/s", value: calls / took }, ...cpu, ...stored];
}

/** What PostgreSQL counts, which takes its time to be seen: left out of a quick run. */
async function counters(database, { quick }) {
  if (quick) return {};
  await countersSettled();
  return database.counters();
}

async function trunklineUnawaited(setting) {
  const options = { callers: IN_FLIGHT, concurrency: UNAWAITED_CONCURRENCY };
  await unawaited(setting, "trunkline", (stage) => trunklineStack(stage, setting.postgres, options));
}

/**
 * @param {import("../scenarios.mjs").Setting} setting
 * @param {import("../peers.mjs").Peer} peer
 */
async function measurePeer(setting, { module, subject, store }) {
  const { postgres, report, options } = setting;
  const start = async (stage, callers, concurrency) => {
    const url = await store(stage, postgres);
    const opener = await startOpener(stage, { module, url, callers });
    const worker = await startWorker(stage, { module, url, concurrency });
    return { opener, worker };
  };
  const rates = [];
  await onStage(async (stage) => {
    const { opener } = await start(stage, PEER_CALLERS, PEER_CALLERS);
    await opener.ask("callers", { seconds: WARM_UP_SECONDS });
    for (let run = 0; run < options.runs; run++) {
      const { calls, seconds: took } = await opener.ask("callers", { seconds: seconds(options) });
      rates.push(calls / took);
    }
  });
  const variant = callersVariant(PEER_CALLERS);
  report.add({ scenario: "throughput", variant, subject, metric: "calls", unit: "calls/s" }, rates);
  await unawaited(setting, subject, (stage) => start(stage, IN_FLIGHT, UNAWAITED_CONCURRENCY));
}

/** Opens whose results nobody waits for, from the first open to the last result: one by one, and many at once. */
async function unawaited({ report, options }, subject, start) {
  const rates = { opens: [], batch: [] };
  for (let run = 0; run < options.runs; run++) {
    await onStage(async (stage) => {
      const stack = await start(stage);
      await handled(stack, "opens", { seconds: 1 });
      rates.opens.push(await handled(stack, "opens", { seconds: seconds(options) }));
      const rate = await handled(stack, "batch", { calls: options.quick ? 5_000 : 20_000 });
      if (rate !== undefined) rates.batch.push(rate);
    });
  }
  const figure = { scenario: "throughput", subject, metric: "calls", unit: "calls/s" };
  report.add({ ...figure, variant: `${IN_FLIGHT} in flight, unawaited` }, rates.opens);
  const batch = `batch of ${options.quick ? "5,000" : "20,000"}`;
  if (rates.batch.length > 0) report.add({ ...figure, variant: batch }, rates.batch);
}

/** Calls a second of a job, from the first open until all have ended. */
async function handled({ opener, worker }, job, options) {
  const before = (await worker.ask("count")).handled;
  const startedAt = performance.now();
  const { calls = options.calls, supported = true } = await opener.ask(job, options);
  if (!supported) return undefined;
  await worker.ask("reach", { calls: before + calls });
  await opener.ask("drained");
  return calls / ((performance.now() - startedAt) / 1_000);
}
