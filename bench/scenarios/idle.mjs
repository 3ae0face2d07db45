// What workers cost that wait for calls, beside streams that nobody watches over.
import { startProgram } from "../stage/program.mjs";
import { startServer } from "../stage/server.mjs";
import { onStage } from "../stage/stack.mjs";
import { usage } from "../stage/usage.mjs";

const WORKERS = 1_000;
const PROCESSES = 4;
const SECONDS = 30;
const QUICK_SECONDS = 10;
/** So long V8 compiles what has just begun to run, which is no part of idling. */
const SETTLING_MS = 60_000;
const VARIANT = { scenario: "idle", variant: "1,000 workers" };

/** @param {import("../scenarios.mjs").Setting} setting */
export async function idle(setting) {
  await onStage((stage) => workers(setting, stage));
  await onStage((stage) => bareStreams(setting, stage));
}

async function workers({ postgres, report, options }, stage) {
  const database = await stage.database(postgres.url);
  const server = await stage.start(startServer(database.url, { settles: true }));
  const alone = await server.settledMemory();
  for (let index = 0; index < PROCESSES; index++) {
    await stage.start(startProgram("idle-workers", { url: server.url, workers: WORKERS / PROCESSES }));
  }
  await pause(SETTLING_MS);
  const before = await counted(server, database);
  await pause((options.quick ? QUICK_SECONDS : SECONDS) * 1_000);
  const after = await counted(server, database);
  const seconds = (after.at - before.at) / 1_000;
  const each = (name) => (after[name] - before[name]) / seconds;
  report.addAll({ ...VARIANT, subject: "trunkline" }, [
    [
      // Those of the server each have a transaction of their own.
      { metric: "statements", unit: "/s", value: each("transactions") },
      { metric: "CPU, server", unit: "% of a core", value: each("server") * 100 },
      { metric: "CPU, PostgreSQL", unit: "% of a core", value: each("postgres") * 100 },
      memoryEach(alone, await server.settledMemory()),
    ],
  ]);
}

async function counted(server, database) {
  return {
    at: performance.now(),
    server: (await usage(server.pid)).cpuSeconds,
    postgres: await database.cpuSeconds(),
    transactions: await database.transactions(),
  };
}

/** As many connections and streams on the echo, which keeps nothing about them. */
async function bareStreams({ report }, stage) {
  const server = await stage.start(startProgram("echo-server", {}));
  const alone = await server.ask("settledMemory");
  const { url } = server.ready;
  for (let index = 0; index < PROCESSES; index++) {
    await stage.start(startProgram("idle-streams", { url, streams: WORKERS / PROCESSES }));
  }
  await server.ask("streams", { count: WORKERS });
  const { bytes } = await server.ask("settledMemory");
  report.addAll({ ...VARIANT, subject: "floor" }, [[memoryEach(alone.bytes, bytes)]]);
}

const memoryEach = (before, after) => ({
  metric: "server memory, collected",
  unit: "KB/worker",
  value: (after - before) / 1_000 / WORKERS,
});

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
