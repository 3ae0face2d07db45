// What open turns cost: those that nobody is connected for, and those that a harness waits for right now.
import { startProgram } from "../stage/program.mjs";
import { startServer } from "../stage/server.mjs";
import { onStage } from "../stage/stack.mjs";
import { someStored, storeCalls } from "../stage/stored-calls.mjs";
import { percentile } from "../statistics.mjs";
import { claimLoad, reportLoad } from "./claim-load.mjs";

const TURNS = 100_000;
const WAITED_FOR = 1_000;
const SETTLED = 100;
const SETTLING_MS = 3_000;
const IDLE_MS = 10_000;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function turns({ postgres, report, options }) {
  const turns = options.rows ?? TURNS;
  await onStage(async (stage) => {
    const database = await stage.database(postgres.url);
    for (const count of [0, turns]) {
      // With its schema, which the first server makes.
      if (count > 0) await storeCalls(database, "turn", count);
      const server = await stage.start(startServer(database.url, { settles: true }));
      const variant = `${count.toLocaleString("en")} open turns`;
      const figure = { scenario: "turns", variant, subject: "trunkline" };
      const before = await database.transactions();
      await pause(IDLE_MS);
      const statements = ((await database.transactions()) - before) / (IDLE_MS / 1_000);
      report.add({ ...figure, metric: "statements", unit: "/s" }, [statements]);
      const bytes = await server.settledMemory();
      report.add({ ...figure, metric: "server memory, collected", unit: "MiB" }, [bytes / 2 ** 20]);
      reportLoad(report, "turns", variant, await claimLoad(stage, server, options));
      if (count > 0) await waitFor(stage, { database, server, report, figure });
      await server.stop();
    }
  });
}

/** A harness that waits for some of them. */
async function waitFor(stage, { database, server, report, figure }) {
  const ids = await someStored(database, "turn", WAITED_FOR);
  const waiter = await stage.start(startProgram("turn-waiter", { url: server.url }));
  const before = await server.settledMemory();
  await waiter.ask("wait", { ids });
  await pause(SETTLING_MS);
  const after = await server.settledMemory();
  const each = (after - before) / 1_000 / WAITED_FOR;
  report.add({ ...figure, metric: "server memory, collected", unit: "KB/wait" }, [each]);
  const { ms } = await waiter.ask("settle", { ids: ids.slice(0, SETTLED) });
  report.add({ ...figure, metric: "settle to settled, p50", unit: "ms" }, [percentile(ms, 0.5)]);
  await waiter.stop();
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
