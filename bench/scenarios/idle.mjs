// What workers cost that wait for calls.
import { startProgram } from "../stage/program.mjs";
import { startServer } from "../stage/server.mjs";
import { countersSettled } from "../stage/database.mjs";
import { onStage } from "../stage/stack.mjs";
import { usage } from "../stage/usage.mjs";

const WORKERS = 1_000;
const PROCESSES = 4;
const SECONDS = 30;
const QUICK_SECONDS = 10;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function idle({ postgres, report, options }) {
  const seconds = options.quick ? QUICK_SECONDS : SECONDS;
  await onStage(async (stage) => {
    const database = await stage.database(postgres.url);
    const server = await stage.start(startServer(database.url));
    await settle();
    const alone = await usage(server.pid);
    for (let index = 0; index < PROCESSES; index++) {
      await stage.start(startProgram("idle-workers", { url: server.url, workers: WORKERS / PROCESSES }));
    }
    await settle();
    const commitsBefore = (await database.counters()).commits;
    const before = await measure(server, database);
    await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
    const after = await measure(server, database);
    await countersSettled();
    const commitsAfter = (await database.counters()).commits;
    const figure = { scenario: "idle", variant: "1,000 workers", subject: "trunkline" };
    // The counters were read once more `countersSettled` later, and by statements of their own.
    const took = (after.at - before.at) / 1_000;
    const counted = (performance.now() - before.at) / 1_000;
    const share = (name) => [((after[name] - before[name]) / took) * 100];
    report.add({ ...figure, metric: "transactions", unit: "/s" }, [(commitsAfter - commitsBefore) / counted]);
    report.add({ ...figure, metric: "CPU, server", unit: "% of a core" }, share("server"));
    report.add({ ...figure, metric: "CPU, PostgreSQL", unit: "% of a core" }, share("postgres"));
    report.add({ ...figure, metric: "server memory", unit: "KB/worker" }, [
      (after.rss - alone.rss) / 1_000 / WORKERS,
    ]);
  });
}

/** Past the bustle of the start, and what PostgreSQL counts has been published. */
const settle = () => countersSettled();

async function measure(server, database) {
  const at = performance.now();
  const { cpuSeconds, rss } = await usage(server.pid);
  return { at, server: cpuSeconds, rss, postgres: await database.cpuSeconds() };
}
