import { randomBytes } from "node:crypto";
import { rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import type { TestProject } from "vitest/node";
import { migrate } from "../../server/src/store/migrate.js";
import { FULL_SIZE } from "./full-size.js";
import { startTestPostgres, withDatabase, type TestPostgres } from "./postgres.js";

declare module "vitest" {
  interface ProvidedContext {
    /** A connection string with the right to create databases. */
    readonly postgresUrl: string;
    /** Begins the names of this run's databases. */
    readonly databasePrefix: string;
    /** The database with all migrations applied, of which tests get copies. */
    readonly templateDatabase: string;
  }
}

/**
 * Gives the test run a PostgreSQL server: that of `DATABASE_URL`, else an embedded one of its own, which
 * flushes to disk at full size only. Makes the template of the tests' databases. Databases that failed tests kept
 * are named at the end.
 */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env["DATABASE_URL"];
  const server = given === undefined ? await startTestPostgres({ durable: FULL_SIZE }) : undefined;
  const url = given ?? server?.url ?? "";
  const databasePrefix = `trunkline_test_${randomBytes(4).toString("hex")}_`;
  const templateDatabase = `${databasePrefix}template`;
  try {
    await makeTemplate(url, templateDatabase);
  } catch (error) {
    await server?.dispose();
    throw error;
  }
  project.provide("postgresUrl", url);
  project.provide("databasePrefix", databasePrefix);
  project.provide("templateDatabase", templateDatabase);
  return () => tearDown(url, databasePrefix, templateDatabase, server);
}

async function makeTemplate(url: string, name: string): Promise<void> {
  await execute(url, `CREATE DATABASE ${name}`);
  await migrate(withDatabase(url, name));
  // A connection to the template would make every copy fail.
  await execute(url, `ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
}

async function tearDown(
  url: string,
  prefix: string,
  template: string,
  server: TestPostgres | undefined,
): Promise<void> {
  await execute(url, `DROP DATABASE IF EXISTS ${template}`);
  const kept = await execute(url, "SELECT datname FROM pg_database WHERE starts_with(datname, $1)", [prefix]);
  const names = kept.map(({ datname }) => String(datname));
  if (names.length > 0) console.error(`databases kept: ${names.join(", ")}`);
  if (server === undefined) return;
  await server.dispose({ keepData: names.length > 0 });
  if (names.length > 0) await keepFolder(server.dataDir);
}

/** Only the last failed run's folder is kept, so that they do not fill the disk. */
async function keepFolder(dataDir: string): Promise<void> {
  const place = join(tmpdir(), `trunkline-test-kept-${process.getuid?.() ?? 0}`);
  await rm(place, { recursive: true, force: true });
  await rename(dataDir, place);
  console.error(
    `  in the data folder ${place}; or run the tests with DATABASE_URL set to keep them in your server`,
  );
}

async function execute(
  url: string,
  statement: string,
  values: readonly string[] = [],
): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(statement, [...values])).rows;
  } finally {
    await client.end();
  }
}
