// One, two and three servers on one database: workers and callers spread over them, or all callers on one of them.
import { startServer } from "../stage/server.mjs";
import { onStage, startOpener, startWorker } from "../stage/stack.mjs";
import { usage } from "../stage/usage.mjs";

const LAYOUTS = [
  { variant: "1 server", servers: 1, spread: true },
  { variant: "2 servers", servers: 2, spread: true },
  { variant: "3 servers", servers: 3, spread: true },
  // Two thirds of the handlers are where no call is opened.
  { variant: "3 servers, callers on one", servers: 3, spread: false },
];
const CALLERS = 300;
/** So many workers and harnesses in all, however many servers there are. */
const EACH = 3;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function nodes({ postgres, report, options }) {
  for (const layout of LAYOUTS) {
    await onStage(async (stage) => {
      const { database, servers, openers } = await startNodes(stage, postgres, layout);
      const seconds = options.quick ? 3 : 5;
      await load(openers, 2);
      const rates = [];
      const cpu = [];
      for (let run = 0; run < options.runs; run++) {
        const before = await cpuSeconds(servers, database);
        const { calls, rate } = await load(openers, seconds);
        rates.push(rate);
        cpu.push((((await cpuSeconds(servers, database)) - before) / calls) * 1e6);
      }
      const figure = { scenario: "nodes", variant: layout.variant, subject: "trunkline" };
      report.add({ ...figure, metric: "calls", unit: "calls/s" }, rates);
      report.add({ ...figure, metric: "CPU, servers and PostgreSQL", unit: "µs/call" }, cpu);
    });
  }
}

async function startNodes(stage, postgres, { servers: count, spread }) {
  const database = await stage.database(postgres.url);
  const servers = [];
  for (let index = 0; index < count; index++) servers.push(await stage.start(startServer(database.url)));
  const openers = [];
  for (let index = 0; index < EACH; index++) {
    const { url } = servers[index % count];
    await startWorker(stage, { url, concurrency: CALLERS / EACH });
    openers.push(await startOpener(stage, { url: spread ? url : servers[0].url, callers: CALLERS / EACH }));
  }
  return { database, servers, openers };
}

/** All openers at once. */
async function load(openers, seconds) {
  const done = await Promise.all(openers.map((opener) => opener.ask("callers", { seconds })));
  const calls = done.reduce((sum, each) => sum + each.calls, 0);
  return { calls, rate: done.reduce((sum, each) => sum + each.calls / each.seconds, 0) };
}

async function cpuSeconds(servers, database) {
  const used = await Promise.all(servers.map(({ pid }) => usage(pid)));
  return used.reduce((sum, { cpuSeconds: each }) => sum + each, 0) + (await database.cpuSeconds());
}
