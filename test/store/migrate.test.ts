import { execFile } from "node:child_process";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TrunklineError } from "../../server/src/core/error.js";
import { openDatabase } from "../../server/src/store/database.js";
import { listMigrations, migrate, schemaVersion } from "../../server/src/store/migrate.js";
import { serverUrl } from "../support/database.js";
import { withDatabase } from "../support/postgres.js";
import { newName } from "./fixture.js";

const admin = new pg.Pool({ connectionString: serverUrl(), max: 1 });
const names: string[] = [];

beforeAll(async () => {
  await admin.query("SELECT 1");
});

afterAll(async () => {
  for (const name of names) await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
  await admin.end();
});

/** A database without any schema. */
async function makeEmpty(): Promise<string> {
  const name = newName("trunkline_test_empty").replaceAll("-", "_");
  await admin.query(`CREATE DATABASE ${name}`);
  names.push(name);
  return withDatabase(serverUrl(), name);
}

async function query(url: string, text: string): Promise<readonly unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}

/** The build, because Node cannot run the sources; `npm test` renews it first. */
const MODULE = new URL("../../server/dist/store/migrate.js", import.meta.url).href;
const PROGRAM = `
  const { migrate } = await import(process.argv[1]);
  console.log(JSON.stringify((await migrate(process.argv[2])).applied));`;

const run = promisify(execFile);

/** Migrates in a process of its own; the names of what it applied. */
async function migrateElsewhere(url: string): Promise<readonly string[]> {
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", PROGRAM, MODULE, url]);
  return JSON.parse(stdout) as string[];
}

describe("migrate", () => {
  test("two processes that start on an empty database at once both come up, and each migration is applied once (S09)", async () => {
    const url = await makeEmpty();
    const applied = await Promise.all([migrateElsewhere(url), migrateElsewhere(url)]);
    const all = (await listMigrations()).map(({ name }) => name);
    expect(applied.flat().sort()).toEqual(all);
    expect(await query(url, "SELECT name FROM schema_migrations ORDER BY version")).toEqual(
      all.map((name) => ({ name })),
    );
  });

  test("many at once in one process come up as well (S09)", async () => {
    const url = await makeEmpty();
    const results = await Promise.all(Array.from({ length: 6 }, () => migrate(url)));
    expect(results.flatMap(({ applied }) => applied).sort()).toEqual(
      (await listMigrations()).map(({ name }) => name),
    );
  });

  test("the project `default` has the number 1 from the start", async () => {
    const url = await makeEmpty();
    await migrate(url);
    expect(await query(url, "SELECT id, name FROM projects")).toEqual([{ id: 1, name: "default" }]);
  });

  test("a schema newer than the server knows is refused, with what to do, and left alone", async () => {
    const url = await makeEmpty();
    await migrate(url);
    await query(url, "INSERT INTO schema_migrations (version, name) VALUES (9999, '9999_from_the_future')");
    const refused = await migrate(url).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(TrunklineError);
    expect(refused).toMatchObject({
      reason: "UNAVAILABLE",
      message: expect.stringMatching(/9999_from_the_future.*newer than this server knows.*start the version/),
    });
  });

  test("the version of a schema is 0 without one, and else that of the last migration", async () => {
    const url = await makeEmpty();
    const db = openDatabase({ url, maxConnections: 1, onError: () => {} });
    try {
      expect(await schemaVersion(db)).toBe(0);
      await migrate(url);
      expect(await schemaVersion(db)).toBe((await listMigrations()).at(-1)?.version);
    } finally {
      await db.close();
    }
  });
});
