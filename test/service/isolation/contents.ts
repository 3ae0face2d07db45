import type pg from "pg";

/** What changes by itself: signs of life, and when keys were used. */
const UNSTEADY = ["last_used_at", "last_heard_at", "renewed_at", "floor_at"];

/** A row of a database, by column. */
export type Row = Readonly<Record<string, unknown>>;

/** All that is in a database, by table, in one order. */
export async function contentsOf(pool: pg.Pool): Promise<Record<string, Row[]>> {
  const { rows: tables } = await pool.query<{ name: string }>(
    "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1",
  );
  const found: Record<string, Row[]> = {};
  for (const { name } of tables) {
    const { rows } = await pool.query<{ row: Row }>(
      `SELECT to_jsonb(t) - $1::text[] AS row FROM ${name} t ORDER BY to_jsonb(t)::text COLLATE "C"`,
      [UNSTEADY],
    );
    found[name] = rows.map(({ row }) => row);
  }
  return found;
}
