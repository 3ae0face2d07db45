// A fresh database for each measurement.
import pg from "pg";
import { usage } from "./usage.mjs";

const COUNTERS = `SELECT
  (SELECT sum(n_tup_ins + n_tup_upd) FROM pg_stat_user_tables WHERE relname = 'calls')::float AS versions,
  (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float AS commits,
  (SELECT wal_bytes FROM pg_stat_wal)::float AS wal`;

const transactionsOf = (name) =>
  `SELECT (xact_commit + xact_rollback)::float AS count FROM pg_stat_database WHERE datname = '${name}'`;

const CHECKPOINTER = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";

let made = 0;

/**
 * A fresh database on the server.
 *
 * @param {string} postgresUrl
 */
export async function createDatabase(postgresUrl) {
  const name = `bench_${process.pid}_${Date.now()}_${made++}`;
  await query(postgresUrl, `CREATE DATABASE ${name}`);
  const url = new URL(postgresUrl);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    /** @param {string} text */
    query: (text) => query(url.href, text),
    drop: () => query(postgresUrl, `DROP DATABASE ${name} WITH (FORCE)`),
    /** CPU seconds of all of PostgreSQL's processes, which are on this machine, those that have ended too. */
    cpuSeconds: async () => {
      const [{ pid: checkpointer }] = await query(postgresUrl, CHECKPOINTER);
      const { parent } = await usage(checkpointer);
      const rows = await query(postgresUrl, "SELECT pid FROM pg_stat_activity");
      // One that has just ended is its parent's to tell.
      const live = await Promise.all(rows.map(({ pid }) => usage(pid).catch(() => ({ cpuSeconds: 0 }))));
      const { cpuSeconds, endedChildrenSeconds } = await usage(parent);
      return live.reduce((sum, each) => sum + each.cpuSeconds, cpuSeconds + endedChildrenSeconds);
    },
    /** Transactions so far; asked for in another database, so that asking does not count. */
    transactions: async () => (await query(postgresUrl, transactionsOf(name)))[0].count,
    /** Row versions written, commits and WAL bytes so far; see {@link countersSettled}. */
    counters: async () => (await query(url.href, COUNTERS))[0],
  };
}

/** An idle backend of PostgreSQL publishes its last counters after ten seconds. */
export function countersSettled() {
  return new Promise((resolve) => setTimeout(resolve, 10_500));
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
