// A call is opened on one node, and the only worker is on another: how long until its handler starts.
import { startServer } from "../stage/server.mjs";
import { onStage, startOpener, startWorker } from "../stage/stack.mjs";
import { percentile } from "../statistics.mjs";
import { LONE_WARM_UP } from "../warm-up.mjs";

const PAUSE_MS = 50;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function wake({ postgres, report, options }) {
  await onStage(async (stage) => {
    const database = await stage.database(postgres.url);
    const near = await stage.start(startServer(database.url));
    const far = await stage.start(startServer(database.url));
    const worker = await startWorker(stage, { url: far.url, concurrency: 10 });
    const opener = await startOpener(stage, { url: near.url, callers: 1 });
    await opener.ask("callers", LONE_WARM_UP);
    await worker.ask("starts");
    const figures = { start50: [], start99: [], stored50: [], stored99: [] };
    for (let run = 0; run < options.runs; run++) {
      const calls = options.quick ? 60 : 200;
      const { openedAt, storedAt } = await opener.ask("wake", { calls, pauseMs: PAUSE_MS });
      const { times } = await worker.ask("starts");
      const sinceOpen = times.map((time, call) => time - openedAt[call]);
      const sinceStored = times.map((time, call) => time - storedAt[call]);
      figures.start50.push(percentile(sinceOpen, 0.5));
      figures.start99.push(percentile(sinceOpen, 0.99));
      figures.stored50.push(percentile(sinceStored, 0.5));
      figures.stored99.push(percentile(sinceStored, 0.99));
    }
    const figure = { scenario: "wake", variant: "worker on another node", subject: "trunkline", unit: "ms" };
    // The opener hears of the commit a moment after it: where the worker was quicker, this is below zero.
    report.add({ ...figure, metric: "opened to start, p50" }, figures.stored50);
    report.add({ ...figure, metric: "opened to start, p99" }, figures.stored99);
    report.add({ ...figure, metric: "open to start, p50" }, figures.start50);
    report.add({ ...figure, metric: "open to start, p99" }, figures.start99);
  });
}
