// Real processes for the benchmarks: PostgreSQL, a server, a worker and a harness, each on its own.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { startEmbeddedPostgres } from "trunkline";

const BIN = fileURLToPath(new URL("../server/bin/trunkline.js", import.meta.url));
const here = (name) => fileURLToPath(new URL(name, import.meta.url));

/** A PostgreSQL with fsync on, in a temporary folder, or the one that DATABASE_URL names. */
export async function startPostgres() {
  if (process.env.DATABASE_URL !== undefined) {
    return { url: process.env.DATABASE_URL, stop: () => Promise.resolve() };
  }
  const folder = await mkdtemp(join(tmpdir(), "trunkline-bench-"));
  const server = await startEmbeddedPostgres({ dataDir: join(folder, "pg") });
  const stop = async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  };
  return { url: server.url, stop };
}

/** A fresh database on the server, with a client of its own for statistics. */
export async function createDatabase(postgresUrl) {
  const name = `bench_${process.pid}_${Date.now()}`;
  await query(postgresUrl, `CREATE DATABASE ${name}`);
  const url = new URL(postgresUrl);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    drop: () => query(postgresUrl, `DROP DATABASE ${name} WITH (FORCE)`),
    /** CPU seconds of all of PostgreSQL's processes on this machine, but for those that have ended. */
    cpuSeconds: async () => {
      const rows = await query(url.href, "SELECT pid FROM pg_stat_activity");
      const used = await Promise.all(rows.map(({ pid }) => usage(pid).catch(() => ({ cpuSeconds: 0 }))));
      return used.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0);
    },
    /** Row versions written, commits and WAL bytes so far. */
    counters: async () => {
      const [row] = await query(
        url.href,
        `SELECT (SELECT sum(n_tup_ins + n_tup_upd) FROM pg_stat_user_tables WHERE relname = 'calls')::float AS versions,
                (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float AS commits,
                (SELECT wal_bytes FROM pg_stat_wal)::float AS wal`,
      );
      return row;
    },
  };
}

async function query(url, text) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

/** `trunkline serve` on a free port. */
export async function startServer(databaseUrl, more = []) {
  const child = spawn(
    process.execPath,
    [...nodeOptions(), BIN, "serve", "--insecure", "--port", "0", ...more],
    {
      env: { ...process.env, DATABASE_URL: databaseUrl, TRUNKLINE_ROOT_KEY: "" },
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const lines = createInterface({ input: child.stdout });
  const [line] = await Promise.race([
    once(lines, "line"),
    once(child, "exit").then(() => {
      throw new Error("the server ended before it was ready");
    }),
  ]);
  return { url: line.replace(/^ready /, ""), pid: child.pid, stop: () => end(child) };
}

function nodeOptions() {
  return process.env.BENCH_CPU_PROF === undefined
    ? []
    : ["--cpu-prof", "--cpu-prof-dir", process.env.BENCH_CPU_PROF];
}

/** A program of this folder that answers each message with one. */
export async function startProgram(file, config) {
  const child = spawn(process.execPath, [...nodeOptions(), here(file)], {
    env: { ...process.env, BENCH_CONFIG: JSON.stringify(config) },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const [ready] = await once(child, "message");
  if (ready !== "ready") throw new Error(`${file} did not start`);
  return {
    pid: child.pid,
    ask: async (message) => {
      child.send(message);
      const [answer] = await once(child, "message");
      return answer;
    },
    stop: () => end(child),
  };
}

async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  await once(child, "exit");
}

/** CPU seconds that a process has used, and its resident memory in bytes. */
export async function usage(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = Number(fields[11]) + Number(fields[12]);
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const rss = Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) * 1024;
  return { cpuSeconds: ticks / 100, rss };
}
