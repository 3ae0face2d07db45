import { formatTime } from "../terminal.mjs";

/** @type {import("../story.mjs").Step} */
export const openTheShop = {
  title: "Open the shop",
  text: `A server with a PostgreSQL of its own, two workers that run the tools, and a script that calls them:
    four programs that know of each other only where the server is.`,

  async play({ stage, books, promises }) {
    const startedAt = performance.now();
    const server = await stage.startServer();
    const workers = await stage.fillPlaces();
    const script = stage.startProgram("script", "host-tools/harness.mjs");
    const run = await stage.until("the script's run", async () => {
      const runs = await stage.client.runs.list({ state: "active" });
      return runs.items[0];
    });
    const pids = new Set([server, ...workers, script].map(({ pid }) => pid));
    promises.check(
      "One command starts everything, on a real PostgreSQL.",
      `${pids.size} processes and PostgreSQL, ready in ${formatTime(performance.now() - startedAt)}; ` +
        `${books.customers.length} customers and ${books.orders.length} orders to work with`,
      {
        "every program has a process of its own": pids.size === 4,
        "PostgreSQL runs": stage.postgresRuns,
        "the run acts for the shop": run.namespace === "harbour",
      },
    );
  },
};
