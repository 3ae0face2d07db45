// How long one call takes when nothing else is under way.
import { countersSettled } from "../stage/database.mjs";
import { onStage, startOpener, startWorker, trunklineStack } from "../stage/stack.mjs";
import { percentile } from "../statistics.mjs";

const APART_MS = 20;
const WARM_UP_CALLS = 200;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function latency(setting) {
  const { postgres, peers } = setting;
  await onStage(async (stage) => {
    const stack = await trunklineStack(stage, postgres, { concurrency: 10 });
    await warmUp(stack);
    for (const pauseMs of [0, APART_MS]) await measure(setting, "trunkline", stack, pauseMs);
    if (!setting.options.quick) await cost(setting, stack);
  });
  for (const { module, subject, store } of peers) {
    await onStage(async (stage) => {
      const url = await store(stage, postgres);
      const opener = await startOpener(stage, { module, url, callers: 1 });
      const worker = await startWorker(stage, { module, url, concurrency: 10 });
      await warmUp({ opener, worker });
      await measure(setting, subject, { opener, worker }, APART_MS);
    });
  }
}

async function warmUp({ opener, worker }) {
  await opener.ask("latency", { calls: WARM_UP_CALLS, pauseMs: 0 });
  await worker.ask("starts");
}

async function measure({ report, options }, subject, { opener, worker }, pauseMs) {
  const figures = { start50: [], start99: [], p50: [], p99: [] };
  const calls = options.quick ? 200 : 400;
  for (let run = 0; run < options.runs; run++) {
    const { ms, openedAt } = await opener.ask("latency", { calls, pauseMs });
    const { times } = await worker.ask("starts");
    const starts = times.map((time, call) => time - openedAt[call]);
    figures.start50.push(percentile(starts, 0.5));
    figures.start99.push(percentile(starts, 0.99));
    figures.p50.push(percentile(ms, 0.5));
    figures.p99.push(percentile(ms, 0.99));
  }
  const variant = pauseMs === 0 ? "back to back" : `${pauseMs} ms apart`;
  const figure = { scenario: "latency", variant, subject, unit: "ms" };
  report.add({ ...figure, metric: "open to start, p50" }, figures.start50);
  report.add({ ...figure, metric: "open to start, p99" }, figures.start99);
  report.add({ ...figure, metric: "open to result, p50" }, figures.p50);
  report.add({ ...figure, metric: "open to result, p99" }, figures.p99);
}

/** What a lone call costs the database, upkeep included. */
async function cost({ report }, { opener, database }) {
  const calls = 400;
  await countersSettled();
  const before = await database.counters();
  await opener.ask("latency", { calls, pauseMs: APART_MS });
  await countersSettled();
  const after = await database.counters();
  const figure = {
    scenario: "latency",
    variant: `${APART_MS} ms apart`,
    subject: "trunkline",
    unit: "/call",
  };
  report.add({ ...figure, metric: "commits, upkeep included" }, [(after.commits - before.commits) / calls]);
  report.add({ ...figure, metric: "row versions" }, [(after.versions - before.versions) / calls]);
}
