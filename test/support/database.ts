import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, inject } from "vitest";
import { withDatabase } from "./postgres.js";

/** A database with all migrations applied and no data, of which nobody else knows. */
export interface TestDatabase {
  /** The connection string of its owner. */
  readonly url: string;
  readonly name: string;
  /** One pool for the test's own looks and changes; made on first use, closed by {@link drop}. */
  pool(): pg.Pool;
  /**
   * Closes the pool and removes the database.
   *
   * @throws when somebody is still connected: a pool or a server that a test forgot to close. The
   * database is removed all the same.
   */
  drop(): Promise<void>;
}

/** The connection string of the test run's server, with the right to create databases. */
export function serverUrl(): string {
  return inject("postgresUrl");
}

/** Makes a database for one test file, as a copy of the migrated template. */
export async function createDatabase(): Promise<TestDatabase> {
  const name = `${inject("databasePrefix")}${randomBytes(6).toString("hex")}`;
  await asAdmin((admin) => admin.query(`CREATE DATABASE ${name} TEMPLATE ${inject("templateDatabase")}`));
  const url = withDatabase(serverUrl(), name);
  const pools: pg.Pool[] = [];
  return {
    url,
    name,
    pool: () => {
      const pool = pools[0] ?? new pg.Pool({ connectionString: url, max: 10, application_name: "the test" });
      if (pools.length === 0) pools.push(pool);
      return pool;
    },
    drop: async () => {
      await pools.pop()?.end();
      await asAdmin((admin) => dropDatabase(admin, name));
    },
  };
}

/**
 * Gives the test file (or the `describe` around it) a database from before its first test until after
 * its last. When a test fails the database is kept and its name printed.
 *
 * @returns the database; reading it before the tests run is an error.
 */
export function useDatabase(): TestDatabase {
  let database: TestDatabase | undefined;
  let failed = false;
  const current = (): TestDatabase => {
    if (database === undefined) throw new Error("useDatabase: the database exists only while tests run");
    return database;
  };
  beforeAll(async () => {
    database = await createDatabase();
  });
  beforeEach(({ onTestFailed }) => {
    onTestFailed(() => {
      failed = true;
    });
  });
  afterAll(async () => {
    if (failed) console.error(`kept database ${current().name} of the failed test`);
    else await database?.drop();
  });
  return {
    get url() {
      return current().url;
    },
    get name() {
      return current().name;
    },
    pool: () => current().pool(),
    drop: () => current().drop(),
  };
}

async function asAdmin<T>(work: (admin: pg.Client) => Promise<T>): Promise<T> {
  const admin = new pg.Client({ connectionString: serverUrl() });
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.end();
  }
}

async function dropDatabase(admin: pg.Client, name: string): Promise<void> {
  try {
    // PostgreSQL itself gives connections that are just closing five seconds.
    await admin.query(`DROP DATABASE ${name}`);
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || error.code !== "55006") throw error;
    const { rows } = await admin.query<{ application_name: string; query: string }>(
      "SELECT application_name, left(query, 200) AS query FROM pg_stat_activity WHERE datname = $1",
      [name],
    );
    await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
    const left = rows.map((row) => `${row.application_name || "unnamed"} (last statement: ${row.query})`);
    throw new Error(`database ${name} still had connections after its tests: ${left.join("; ")}`);
  }
}
