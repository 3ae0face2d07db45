import { readFile, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { useDatabase } from "../support/database.js";
import { dumpSchema } from "./schema-dump.js";

const database = useDatabase();

const SCHEMA = new URL("../../server/schema.sql", import.meta.url);

/** Tables of the whole server, which belong to no project. */
const SHARED = ["projects", "nodes", "lease_floor", "schema_migrations", "access_state"];

test("schema.sql is what the migrations make", async () => {
  const dump = await dumpSchema(database.pool());
  if (process.env["TRUNKLINE_WRITE_SCHEMA"] !== undefined) await writeFile(SCHEMA, dump);
  expect(await readFile(SCHEMA, "utf8")).toBe(dump);
});

test("project_id leads every primary and unique key of what belongs to a project (I7)", async () => {
  const { rows } = await database.pool().query<{ name: string; first: string }>(
    `SELECT i.indexrelid::regclass::text AS name,
      (SELECT a.attname FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = i.indkey[0]) AS first
    FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE i.indisunique AND c.relnamespace = 'public'::regnamespace AND NOT c.relname = ANY ($1)`,
    [SHARED],
  );
  expect(rows.length).toBeGreaterThan(5);
  expect(rows.filter(({ first }) => first !== "project_id")).toEqual([]);
});

test("no column keeps a time without its zone (S11)", async () => {
  const { rows } = await database.pool().query(
    `SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = 'public' AND data_type LIKE '%without time zone%'`,
  );
  expect(rows).toEqual([]);
});
