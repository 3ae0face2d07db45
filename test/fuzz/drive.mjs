/** The driver of one fuzz run; started by run.mjs, which clears up after it whatever happens to it. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startEmbeddedPostgres } from "trunkline";
import { Database, freePort } from "../fault-run/stage/postgres.mjs";
import { fuzz } from "./fuzz.mjs";
import { commandOf } from "./options.mjs";
import { printReport } from "./report.mjs";

/** @type {{ options: import("./options.mjs").Options, folder: string }} */
const { options, folder } = JSON.parse(process.env["FUZZ_RUN"] ?? "null");
const databaseName = `trunkline_fuzz_${process.pid}_${Date.now()}`;

const given = process.env["DATABASE_URL"] || undefined;
const own = given === undefined ? await startPostgres() : undefined;
const serverUrl = given ?? own?.url ?? "";
const maintenance = new Database(serverUrl);

process.on("message", () => void leave("interrupted"));
process.on("disconnect", () => void leave("left alone"));

process.exit(await run());

/** @returns {Promise<number>} The status. */
async function run() {
  console.log(`seed ${options.seed}: ${options.inputs} inputs`);
  try {
    await maintenance.query(`CREATE DATABASE ${databaseName}`);
    const report = await fuzz(options, folder, databaseUrl());
    printReport(report);
    if (options.json !== null) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
    console.log(`again: ${commandOf(options)}`);
    return report.violations.length === 0 ? 0 : 1;
  } finally {
    await clear();
  }
}

function startPostgres() {
  return freePort().then((port) =>
    startEmbeddedPostgres({ dataDir: join(folder, "postgres"), port, durable: false }),
  );
}

function databaseUrl() {
  const url = new URL(serverUrl);
  url.pathname = `/${databaseName}`;
  return url.href;
}

async function clear() {
  await maintenance.query(`DROP DATABASE IF EXISTS ${databaseName} WITH (FORCE)`);
  await maintenance.close();
  await own?.stop();
}

/** @param {string} why */
async function leave(why) {
  console.error(`${why}: ending everything`);
  await clear().catch(() => undefined);
  process.exit(1);
}
