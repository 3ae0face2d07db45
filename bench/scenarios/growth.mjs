// The same load on a table that was empty a moment ago, on one full of old calls, and under an old snapshot.
import pg from "pg";
import { startServer } from "../stage/server.mjs";
import { onStage, startOpener, startWorker } from "../stage/stack.mjs";
import { storeCalls } from "../stage/stored-calls.mjs";
import { claimLoad, reportLoad } from "./claim-load.mjs";

const STORED = 100_000;
const FULL_STORED = 1_000_000;
const SNAPSHOT_SECONDS = 10;
const FULL_SNAPSHOT_SECONDS = 600;
const CALLERS = 100;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function growth({ postgres, report, options }) {
  const stored = options.rows ?? (options.full ? FULL_STORED : STORED);
  const snapshotSeconds = options.full ? FULL_SNAPSHOT_SECONDS : SNAPSHOT_SECONDS;
  await onStage(async (stage) => {
    const database = await stage.database(postgres.url);
    const server = await stage.start(startServer(database.url));
    reportLoad(report, "growth", "0 stored", await claimLoad(stage, server, options));
    await storeCalls(database, "ended", stored);
    const full = `${stored.toLocaleString("en")} stored`;
    reportLoad(report, "growth", full, await claimLoad(stage, server, options));
    const release = await holdSnapshot(database.url);
    await churn(stage, server, snapshotSeconds);
    const old = `${full}, snapshot of ${snapshotSeconds} s`;
    reportLoad(report, "growth", old, await claimLoad(stage, server, options));
    await release();
  });
}

/** Keeps every row version from now on, until the function that it resolves with is called. */
async function holdSnapshot(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  await client.query("SELECT count(*) FROM runs");
  return () => client.end();
}

/** Calls that come and go, and leave row versions behind that nobody may clear away. */
async function churn(stage, { url }, seconds) {
  const worker = await startWorker(stage, { url, concurrency: CALLERS });
  const opener = await startOpener(stage, { url, callers: CALLERS });
  await opener.ask("callers", { seconds });
  await opener.stop();
  await worker.stop();
}
