import { expect, test } from "vitest";
import { Trunkline, type Policy } from "../../client/src/index.js";
import { createLog } from "../../server/src/log.js";
import { startServer, type Server } from "../../server/src/server.js";
import { useDatabase } from "../support/database.js";
import { until } from "../support/until.js";

const database = useDatabase();

/** How many row versions each call of the tool took: its version counts them. */
async function versionsOf(tool: string): Promise<number[]> {
  const { rows } = await database
    .pool()
    .query<{ version: number }>("SELECT version FROM calls WHERE tool = $1 ORDER BY seq", [tool]);
  return rows.map(({ version }) => version);
}

async function serve(): Promise<Server> {
  return startServer({
    databaseUrl: database.url,
    port: 0,
    rootKey: null,
    insecure: true,
    heartbeatIntervalMs: 200,
    log: createLog("error"),
  });
}

test("a call that finds a free worker is written twice, at_most_once three times, and one that waits three times", async () => {
  const server = await serve();
  const trunkline = new Trunkline({ url: server.url, onWarning: () => undefined });
  const run = await trunkline.runs.create({ namespace: "u" });
  const waiting = await run.open("waited");
  const worker = trunkline.worker({
    name: "free",
    tools: { direct: () => 1, once: () => 2, waited: () => 3, first: () => 0 },
  });
  try {
    await waiting.outcome();
    // The first calls may still find their queues unread.
    await until("the queue of the tool has been read empty", async () => {
      await run.call("first");
      return (await versionsOf("first")).at(-1) === 2;
    });
    const once: Policy = { mode: "at_most_once" };
    for (let call = 0; call < 20; call++) {
      await run.call("direct");
      await run.call("once", null, { policy: once });
    }
    expect(await versionsOf("direct")).toEqual(new Array(20).fill(2));
    expect(await versionsOf("once")).toEqual(new Array(20).fill(3));
    expect(await versionsOf("waited")).toEqual([3]);
  } finally {
    await worker.stop();
    await trunkline.close();
    await server.stop({ graceMs: 200 });
  }
});
