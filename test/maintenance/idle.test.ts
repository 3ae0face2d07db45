import { expect, test } from "vitest";
import { renew, renewOrTell } from "../../server/src/maintenance/leases.js";
import { Maintenance } from "../../server/src/maintenance/maintenance.js";
import { registerNode, removeNode } from "../../server/src/store/sessions.js";
import { attach, emptyQueues, newName, useExchanges } from "../exchange/support/exchanges.js";
import { openAccess } from "../support/access.js";
import { throughout } from "../support/until.js";

const nodes = useExchanges();

/** Once a minute, from some time within the first one. */
const SELDOM = ["retention_delete_sessions"];

/** The renewal, the leases that lapse and the comparison with what sessions hold: each has its own interval. */
const LEASES = ["session_renew", "leases_lapsed", "leases_of_sessions"];

test("an idle node asks the database for almost nothing beside its leases", async () => {
  let sent: string[] = [];
  const { exchange, faults } = await nodes.start({
    hearsHints: () => true,
    onStatement: (name) => void sent.push(name),
  });
  for (let count = 0; count < 10; count++) {
    await emptyQueues(exchange, await attach(exchange, { tools: [newName("tool")] }));
  }
  const onError = (error: unknown): never => expect.fail(String(error));
  const access = await openAccess(exchange.db, { rootKey: null });
  const maintenance = new Maintenance({ exchange, retentionMs: null, access, onError });
  sent = [];
  maintenance.start();
  try {
    await throughout(2_000, () => expect(faults).toEqual([]));
  } finally {
    await maintenance.stop();
  }
  const counted = sent.filter((name) => !LEASES.includes(name) && !SELDOM.includes(name));
  // It may come as the time begins, and again as it ends.
  expect(counted.length).toBeLessThanOrEqual(2);
  expect(counted.filter((name) => name !== "due_next")).toEqual([]);
});

test("the renewal says whether there is anybody to send hints to", async () => {
  const { exchange } = await nodes.start();
  await nodes.database.pool().query("DELETE FROM nodes");
  await renew(exchange);
  expect(exchange.hints.othersAlive).toBe(false);
  await registerNode(exchange.db, "another", "");
  await renew(exchange);
  expect(exchange.hints.othersAlive).toBe(true);
  await removeNode(exchange.db, "another");
  await renew(exchange);
  expect(exchange.hints.othersAlive).toBe(false);
});

test("a node that others may have counted among the dead says that it is back, once", async () => {
  const sent: string[] = [];
  const { exchange } = await nodes.start({ onStatement: (name) => void sent.push(name) });
  await registerNode(exchange.db, "another", "");
  await renewOrTell(exchange);
  expect(sent).not.toContain("notify");
  exchange.availability.failed();
  await renewOrTell(exchange);
  await renewOrTell(exchange);
  expect(sent.filter((name) => name === "notify")).toHaveLength(1);
  await removeNode(exchange.db, "another");
});
