import { expect, test } from "vitest";
import { sweepRetention } from "../../server/src/maintenance/retention.js";
import { attach, useExchanges } from "../exchange/support/exchanges.js";

const nodes = useExchanges();

test.each([1, 3_600_000, null])(
  "runs kept for %j ms: sessions and nodes that live are not deleted between two renewals",
  async (ageMs) => {
    const { exchange } = await nodes.start();
    const { session } = await attach(exchange, { tools: ["idle"] });
    const pool = nodes.database.pool();
    await pool.query("UPDATE sessions SET last_heard_at = now() - interval '30 seconds' WHERE id = $1", [
      session?.number,
    ]);
    await pool.query("UPDATE nodes SET renewed_at = now() - interval '30 seconds' WHERE id = $1", [
      exchange.nodeId,
    ]);
    await sweepRetention(exchange, ageMs);
    expect((await pool.query("SELECT FROM sessions WHERE id = $1", [session?.number])).rowCount).toBe(1);
    expect((await pool.query("SELECT FROM nodes WHERE id = $1", [exchange.nodeId])).rowCount).toBe(1);
  },
);

test("sessions and nodes of yesterday are deleted, however long runs are kept", async () => {
  const { exchange } = await nodes.start();
  const { session } = await attach(exchange, { tools: ["gone"] });
  const pool = nodes.database.pool();
  await pool.query("UPDATE sessions SET last_heard_at = now() - interval '25 hours' WHERE id = $1", [
    session?.number,
  ]);
  await sweepRetention(exchange, null);
  expect((await pool.query("SELECT FROM sessions WHERE id = $1", [session?.number])).rowCount).toBe(0);
});
