// What calls cost that wait: deferred ones, and queued ones whose tool nobody serves.
import { startProgram } from "../stage/program.mjs";
import { startServer } from "../stage/server.mjs";
import { onStage } from "../stage/stack.mjs";
import { someStored, storeCalls } from "../stage/stored-calls.mjs";
import { usage } from "../stage/usage.mjs";
import { percentile } from "../statistics.mjs";
import { claimLoad, reportLoad } from "./claim-load.mjs";

const DEFERRED = 100_000;
const FULL_DEFERRED = 1_000_000;
const DEFERRED_PER_UNSERVED = 20;
const SETTLED = 100;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function waiting({ postgres, report, options }) {
  const deferred = options.rows ?? (options.full ? FULL_DEFERRED : DEFERRED);
  await onStage(async (stage) => {
    const database = await stage.database(postgres.url);
    for (const count of [0, deferred]) {
      const server = await stage.start(startServer(database.url));
      if (count > 0) await fill(database, count);
      const variant = `${count.toLocaleString("en")} waiting`;
      const { rss } = await usage(server.pid);
      const figure = { scenario: "waiting", variant, subject: "trunkline" };
      report.add({ ...figure, metric: "server memory", unit: "MiB" }, [rss / 2 ** 20]);
      reportLoad(report, "waiting", variant, await claimLoad(stage, server, options));
      if (count > 0) await settle(stage, { database, server, report, figure });
      await server.stop();
    }
  });
}

async function fill(database, count) {
  await storeCalls(database, "deferred", count);
  await storeCalls(database, "unserved", Math.ceil(count / DEFERRED_PER_UNSERVED));
}

async function settle(stage, { database, server, report, figure }) {
  const ids = await someStored(database, "deferred", SETTLED);
  const settler = await stage.start(startProgram("settler", { url: server.url }));
  const { ms } = await settler.ask("settle", { ids });
  await settler.stop();
  report.add({ ...figure, metric: "settle one, p50", unit: "ms" }, [percentile(ms, 0.5)]);
}
