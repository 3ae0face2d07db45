import { readdir, readFile } from "node:fs/promises";
import pg from "pg";
import { TrunklineError } from "../core/error.js";
import type { Database } from "./database.js";
import { findPrimary } from "./servers.js";
import { statement } from "./statement.js";

/** A migration: a plain SQL file `NNNN_effect.sql`. */
export interface Migration {
  readonly version: number;
  /** The file's name without its ending. */
  readonly name: string;
  readonly file: URL;
}

/** The same folder from the sources and from the build. */
const FOLDER = new URL("../../migrations/", import.meta.url);
const FILE_NAME = /^(\d{4})_[a-z0-9_]+\.sql$/;
const OLDEST_SERVER = 150_000;
/** Any number that nobody else locks in this database: "trnk" in ASCII. */
const LOCK = 0x74726e6b;

const HAS_TABLE = statement(
  "schema_has_table",
  "SELECT to_regclass('schema_migrations') IS NOT NULL AS present",
);
const VERSION = statement("schema_version", "SELECT max(version) AS version FROM schema_migrations");

/** The migrations that this server knows, in order. */
export async function listMigrations(): Promise<readonly Migration[]> {
  const migrations = (await readdir(FOLDER)).flatMap((fileName): Migration[] => {
    const [, digits] = FILE_NAME.exec(fileName) ?? [];
    if (digits === undefined) return [];
    return [
      { version: Number(digits), name: fileName.slice(0, -".sql".length), file: new URL(fileName, FOLDER) },
    ];
  });
  return migrations.sort((a, b) => a.version - b.version);
}

/** The version of a database's schema; 0 where there is none. */
export async function schemaVersion(db: Database): Promise<number> {
  const [table] = await db.query<{ present: boolean }>(HAS_TABLE, []);
  if (table?.present !== true) return 0;
  const [row] = await db.query<{ version: number | null }>(VERSION, []);
  return row?.version ?? 0;
}

/**
 * Brings a database's schema up to what this server knows, one migration per transaction. Several nodes
 * may do so at once: an advisory lock lets one work and the others find it done.
 *
 * @throws TrunklineError UNAVAILABLE where the schema is newer, or PostgreSQL older, than this server knows.
 */
export async function migrate(url: string): Promise<{ readonly applied: readonly string[] }> {
  const migrations = await listMigrations();
  const client = new pg.Client({
    connectionString: await findPrimary(url),
    application_name: "trunkline migrate",
  });
  client.on("error", () => {});
  await client.connect();
  try {
    await checkServer(client);
    const applied: string[] = [];
    for (;;) {
      const next = await applyNext(client, migrations);
      if (next === undefined) return { applied };
      applied.push(next.name);
    }
  } finally {
    await client.end();
  }
}

async function checkServer(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ version: number; shown: string }>(
    "SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS shown",
  );
  const [server] = rows;
  if (server !== undefined && server.version < OLDEST_SERVER) {
    throw new TrunklineError(
      "UNAVAILABLE",
      `the database is PostgreSQL ${server.shown}; needed is 15 or later`,
    );
  }
}

/** Applies the first migration that is missing, if any; the lock and the look are in its transaction. */
async function applyNext(
  client: pg.Client,
  migrations: readonly Migration[],
): Promise<Migration | undefined> {
  await client.query("BEGIN");
  try {
    await client.query("SELECT pg_advisory_xact_lock($1)", [LOCK]);
    await client.query(
      `CREATE TABLE IF NOT EXISTS schema_migrations (
        version integer PRIMARY KEY,
        applied_at timestamptz NOT NULL DEFAULT now(),
        name text NOT NULL
      )`,
    );
    const next = await findMissing(client, migrations);
    if (next !== undefined) {
      await client.query(await readFile(next.file, "utf8"));
      const values = [next.version, next.name];
      await client.query("INSERT INTO schema_migrations (version, name) VALUES ($1, $2)", values);
    }
    await client.query("COMMIT");
    return next;
  } catch (error) {
    await client.query("ROLLBACK").catch(() => {});
    throw error;
  }
}

async function findMissing(
  client: pg.Client,
  migrations: readonly Migration[],
): Promise<Migration | undefined> {
  const { rows } = await client.query<{ version: number; name: string }>(
    "SELECT version, name FROM schema_migrations ORDER BY version DESC LIMIT 1",
  );
  const [last] = rows;
  const known = migrations.at(-1)?.version ?? 0;
  if (last !== undefined && last.version > known) {
    throw new TrunklineError(
      "UNAVAILABLE",
      `the database's schema is at ${last.name}, which is newer than this server knows (${known}); ` +
        "start the version of Trunkline that made it, or a later one",
    );
  }
  return migrations.find(({ version }) => version > (last?.version ?? 0));
}
