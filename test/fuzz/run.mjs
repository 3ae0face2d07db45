/** The fuzz run: `npm run fuzz -- --help`. Hostile inputs for a server in a process of its own, which must not mind. */
import { mkdtempSync, chmodSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startEmbeddedPostgres } from "trunkline";
import { Database, freePort } from "../fault-run/stage/postgres.mjs";
import { fuzz } from "./fuzz.mjs";
import { commandOf, parseOptions, USAGE, UsageError } from "./options.mjs";
import { printReport } from "./report.mjs";

try {
  const options = parseOptions(process.argv.slice(2));
  if (options === "help") console.log(USAGE);
  else process.exit(await run(options));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\n\n${USAGE}`);
  process.exitCode = 2;
}

/**
 * @param {import("./options.mjs").Options} options
 * @returns {Promise<number>} The status.
 */
async function run(options) {
  console.log(`seed ${options.seed}: ${options.inputs} inputs`);
  const folder = mkdtempSync(join(tmpdir(), "trunkline-fuzz-"));
  // As root, PostgreSQL runs under an account that must be able to get in; it guards its own folder.
  chmodSync(folder, 0o711);
  const given = process.env["DATABASE_URL"] || undefined;
  const own =
    given === undefined
      ? await startEmbeddedPostgres({
          dataDir: join(folder, "postgres"),
          port: await freePort(),
          durable: false,
        })
      : undefined;
  const serverUrl = given ?? own?.url ?? "";
  const name = `trunkline_fuzz_${process.pid}_${Date.now()}`;
  const maintenance = new Database(serverUrl);
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => stop.abort());
  try {
    await maintenance.query(`CREATE DATABASE ${name}`);
    const report = await fuzz({
      options,
      folder,
      databaseUrl: withName(serverUrl, name),
      signal: stop.signal,
    });
    printReport(report);
    if (options.json !== null) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
    console.log(`again: ${commandOf(options)}`);
    return report.violations.length === 0 ? 0 : 1;
  } finally {
    await maintenance.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    await maintenance.close();
    await own?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {string} serverUrl
 * @param {string} name
 */
function withName(serverUrl, name) {
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}
