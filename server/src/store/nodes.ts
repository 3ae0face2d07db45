import type { Database } from "./database.js";
import { statement } from "./statement.js";

const DEFAULT_INTERVAL_MS = 5_000;

/**
 * The condition that a node, named `n`, was renewed within three heartbeat intervals: its own, or the
 * asking node's (a parameter) where that is longer.
 */
export const isAlive = (intervalMs: string): string =>
  `n.renewed_at > now() - 3 * greatest(n.interval_ms, ${intervalMs}) * interval '1 millisecond'`;

/**
 * Sets the lease floor to now if no node is alive. It is part of the statement that then relies on it, or
 * that makes a node alive: between the two nobody can see the one without the other.
 */
export const raiseFloor = (intervalMs: string): string =>
  `UPDATE lease_floor SET floor_at = greatest(floor_at, now())
    WHERE NOT EXISTS (SELECT FROM nodes n WHERE ${isAlive(intervalMs)})
    RETURNING floor_at`;

const REGISTER = statement(
  "node_register",
  `WITH raised AS (${raiseFloor("$3::bigint")})
  INSERT INTO nodes (id, name, interval_ms) VALUES ($1, $2, $3)
  ON CONFLICT (id) DO UPDATE SET name = $2, interval_ms = $3, renewed_at = now()`,
);

/**
 * Counts a node among the live ones, for three of its heartbeat intervals (default 5 s) from now; renewing
 * its sessions keeps it there.
 */
export async function registerNode(
  db: Database,
  nodeId: string,
  name: string,
  intervalMs = DEFAULT_INTERVAL_MS,
): Promise<void> {
  await db.query(REGISTER, [nodeId, name, intervalMs]);
}

const REMOVE = statement("node_remove", "DELETE FROM nodes WHERE id = $1");

/** Forgets a node that shuts down. Its sessions keep their claims until their leases end. */
export async function removeNode(db: Database, nodeId: string): Promise<void> {
  await db.query(REMOVE, [nodeId]);
}

const ALIVE = statement(
  "node_count_alive",
  `SELECT count(*) AS alive FROM nodes n WHERE ${isAlive("$1::bigint")}`,
);

/** How many nodes were renewed within three intervals. */
export async function aliveNodes(db: Database, intervalMs: number): Promise<number> {
  const [row] = await db.query<{ readonly alive: number }>(ALIVE, [intervalMs]);
  return row?.alive ?? 0;
}
