// One, two and three servers on one database: the harness on one of them, the workers spread.
import { startServer } from "../stage/server.mjs";
import { onStage, startOpener, startWorker } from "../stage/stack.mjs";
import { usage } from "../stage/usage.mjs";

const COUNTS = [1, 2, 3];
const CALLERS = 300;
/** One for each server, and so many in all however many servers there are. */
const WORKERS = 3;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function nodes({ postgres, report, options }) {
  for (const count of COUNTS) {
    await onStage(async (stage) => {
      const database = await stage.database(postgres.url);
      const servers = [];
      for (let index = 0; index < count; index++) {
        servers.push(await stage.start(startServer(database.url)));
      }
      for (let index = 0; index < WORKERS; index++) {
        const { url } = servers[index % count];
        await startWorker(stage, { url, concurrency: CALLERS / WORKERS });
      }
      const opener = await startOpener(stage, { url: servers[0].url, callers: CALLERS });
      await opener.ask("callers", { seconds: 2 });
      const rates = [];
      const cpu = [];
      for (let run = 0; run < options.runs; run++) {
        const before = await cpuSeconds(servers, database);
        const { calls, seconds } = await opener.ask("callers", { seconds: options.quick ? 3 : 5 });
        rates.push(calls / seconds);
        cpu.push((((await cpuSeconds(servers, database)) - before) / calls) * 1e6);
      }
      const variant = `${count} ${count === 1 ? "server" : "servers"}`;
      const figure = { scenario: "nodes", variant, subject: "trunkline" };
      report.add({ ...figure, metric: "calls", unit: "calls/s" }, rates);
      report.add({ ...figure, metric: "CPU, servers and PostgreSQL", unit: "µs/call" }, cpu);
    });
  }
}

async function cpuSeconds(servers, database) {
  const used = await Promise.all(servers.map(({ pid }) => usage(pid)));
  return used.reduce((sum, { cpuSeconds: each }) => sum + each, 0) + (await database.cpuSeconds());
}
