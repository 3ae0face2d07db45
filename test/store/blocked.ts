import type pg from "pg";

const PATIENCE_MS = 10_000;

/**
 * Resolves when so many connections of this database wait for a lock that another one holds.
 *
 * @throws when that does not come about within 10 s.
 */
export async function untilBlocked(pool: pg.Pool, count = 1): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  while (performance.now() < end) {
    const { rows } = await pool.query<{ blocked: number }>(
      `SELECT count(*)::integer AS blocked FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    if ((rows[0]?.blocked ?? 0) >= count) return;
  }
  throw new Error(`after ${PATIENCE_MS} ms there are no ${count} connections that wait for a lock`);
}
