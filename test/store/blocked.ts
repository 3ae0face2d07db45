import type pg from "pg";

/** Resolves when so many connections of this database wait for a lock that another one holds. */
export async function untilBlocked(pool: pg.Pool, count = 1): Promise<void> {
  for (;;) {
    const { rows } = await pool.query<{ blocked: number }>(
      `SELECT count(*)::integer AS blocked FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    if ((rows[0]?.blocked ?? 0) >= count) return;
  }
}
