import { expect, test } from "vitest";
import pg from "pg";
import { createDatabase, useDatabase } from "../support/database.js";

const database = useDatabase();

test("a test file's database is its own", async () => {
  const other = await createDatabase();
  await other.pool().query("CREATE TABLE mine (id int)");
  const { rows } = await database.pool().query("SELECT 1 FROM pg_class WHERE relname = 'mine'");
  expect(rows).toEqual([]);
  await other.drop();
});

test("a dropped database whose pool a test forgot to close is reported, and dropped all the same", async () => {
  const other = await createDatabase();
  const forgotten = new pg.Client({ connectionString: other.url, application_name: "forgotten" });
  forgotten.on("error", () => undefined);
  await forgotten.connect();
  await expect(other.drop()).rejects.toThrow(/still had connections.*forgotten/);
  const { rows } = await database.pool().query("SELECT 1 FROM pg_database WHERE datname = $1", [other.name]);
  expect(rows).toEqual([]);
});
