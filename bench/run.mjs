// npm run bench -- [--quick] [--scenario NAME...] [--json FILE]
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { parseArgs } from "node:util";
import { createDatabase, startPostgres, startProgram, startServer, usage } from "./processes.mjs";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    scenario: { type: "string", multiple: true, default: [] },
    json: { type: "string" },
  },
});
const runs = options.quick ? 1 : 3;
const results = [];

/** Keeps and prints the median of a figure's runs. */
function report(scenario, variant, metric, figures, unit) {
  const sorted = [...figures].sort((a, b) => a - b);
  const value = sorted[Math.floor(sorted.length / 2)];
  results.push({ scenario, variant, subject: "trunkline", metric, value, unit });
  const spread = sorted.length > 1 ? `  (${round(sorted[0])} to ${round(sorted.at(-1))})` : "";
  console.log(
    `${scenario.padEnd(11)} ${variant.padEnd(14)} ${metric.padEnd(24)} ${round(value)} ${unit}${spread}`,
  );
}

const round = (value) =>
  value >= 100 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(3));
const percentile = (values, part) => [...values].sort((a, b) => a - b)[Math.floor(values.length * part)];

/** An idle backend of PostgreSQL publishes its last counters after ten seconds. */
const countersSettled = () => new Promise((resolve) => setTimeout(resolve, 10_500));

/** Starts the three processes on a fresh database for the time of `work`. */
async function withStack(postgres, workerConfig, work) {
  const database = await createDatabase(postgres.url);
  const server = await startServer(database.url);
  const worker = await startProgram("worker.mjs", { url: server.url, ...workerConfig });
  const harness = await startProgram("harness.mjs", { url: server.url });
  try {
    return await work({ database, server, worker, harness });
  } finally {
    await harness.stop();
    await worker.stop();
    await server.stop();
    await database.drop();
  }
}

const scenarios = {
  async throughput(postgres) {
    for (const callers of options.quick ? [500] : [100, 500, 1_000]) {
      await withStack(postgres, { concurrency: Math.max(callers, 100) }, async (stack) => {
        const seconds = options.quick ? 3 : 8;
        await stack.harness.ask({ job: "callers", callers, seconds: 2 });
        const { harness, server, worker, database } = stack;
        const used = async () => ({
          server: (await usage(server.pid)).cpuSeconds,
          harness: (await usage(harness.pid)).cpuSeconds,
          worker: (await usage(worker.pid)).cpuSeconds,
          PostgreSQL: await database.cpuSeconds(),
        });
        const figures = { perSecond: [], versions: [], commits: [], wal: [] };
        const cpu = { server: [], harness: [], worker: [], PostgreSQL: [] };
        for (let index = 0; index < runs; index++) {
          await countersSettled();
          const counted = await database.counters();
          const before = await used();
          const { calls, seconds: took } = await harness.ask({ job: "callers", callers, seconds });
          const after = await used();
          await countersSettled();
          const counts = await database.counters();
          for (const [name, each] of Object.entries(cpu)) {
            each.push(((after[name] - before[name]) / calls) * 1e6);
          }
          figures.perSecond.push(calls / took);
          figures.versions.push((counts.versions - counted.versions) / calls);
          figures.commits.push((counts.commits - counted.commits) / calls);
          figures.wal.push((counts.wal - counted.wal) / calls);
        }
        const variant = `${callers} callers`;
        report("throughput", variant, "calls", figures.perSecond, "calls/s");
        for (const [name, each] of Object.entries(cpu)) {
          report("throughput", variant, `CPU, ${name}`, each, "µs/call");
        }
        report("throughput", variant, "row versions", figures.versions, "/call");
        report("throughput", variant, "commits", figures.commits, "/call");
        report("throughput", variant, "WAL", figures.wal, "B/call");
      });
    }
  },
  async latency(postgres) {
    await withStack(postgres, { concurrency: 10 }, async ({ harness, worker, database }) => {
      await harness.ask({ job: "latency", calls: 200, pauseMs: 0 });
      await worker.ask("times");
      for (const pauseMs of [0, 20]) {
        const figures = { p50: [], p99: [], start50: [], commits: [], versions: [] };
        for (let index = 0; index < runs; index++) {
          await countersSettled();
          const before = await database.counters();
          const calls = options.quick ? 200 : 400;
          const { ms, openedAt } = await harness.ask({ job: "latency", calls, pauseMs });
          const { times } = await worker.ask("times");
          await countersSettled();
          const after = await database.counters();
          const starts = times.map((time, call) => time - openedAt[call]);
          figures.p50.push(percentile(ms, 0.5));
          figures.p99.push(percentile(ms, 0.99));
          figures.start50.push(percentile(starts, 0.5));
          figures.commits.push((after.commits - before.commits) / calls);
          figures.versions.push((after.versions - before.versions) / calls);
        }
        const variant = pauseMs === 0 ? "back to back" : `${pauseMs} ms apart`;
        report("latency", variant, "open to start, p50", figures.start50, "ms");
        report("latency", variant, "open to result, p50", figures.p50, "ms");
        report("latency", variant, "open to result, p99", figures.p99, "ms");
        report("latency", variant, "commits, upkeep included", figures.commits, "/call");
        report("latency", variant, "row versions", figures.versions, "/call");
      }
    });
  },
  async inflight(postgres) {
    await withStack(postgres, { concurrency: 10_000, hold: true }, async ({ server, worker, harness }) => {
      const before = await usage(server.pid);
      const { openedSeconds } = await harness.ask({ job: "burst", calls: 10_000 });
      const { rss } = await usage(server.pid);
      report("inflight", "10,000 calls", "opened", [10_000 / openedSeconds], "calls/s");
      report("inflight", "10,000 calls", "server memory", [rss / 2 ** 20], "MiB");
      report("inflight", "10,000 calls", "server memory, idle", [before.rss / 2 ** 20], "MiB");
      await worker.ask("let go");
      const { seconds } = await harness.ask({ job: "finish" });
      report("inflight", "10,000 calls", "answered", [10_000 / seconds], "calls/s");
    });
  },
};

const machine = `${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`;
const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
console.log(`${machine}, commit ${commit}, medians of ${runs}\n`);
const names = options.scenario.length > 0 ? options.scenario : Object.keys(scenarios);
for (const name of names) {
  if (scenarios[name] === undefined) {
    console.error(`no scenario ${name}; there are ${Object.keys(scenarios).join(", ")}`);
    process.exit(2);
  }
}
const postgres = await startPostgres();
try {
  for (const name of names) await scenarios[name](postgres);
} finally {
  await postgres.stop();
}
if (options.json !== undefined) {
  writeFileSync(options.json, `${JSON.stringify({ machine, commit, results }, null, 2)}\n`);
}
