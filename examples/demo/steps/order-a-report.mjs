import { fileURLToPath } from "node:url";
import { readdir } from "node:fs/promises";
import { CAST, ORDERS_CSV, totalOf } from "../cast.mjs";
import { formatEuro } from "../terminal.mjs";

/** @type {import("../story.mjs").Step} */
export const orderAReport = {
  title: "Order a report, and let it be done by somebody else",
  text: `Another worker takes a report on, leaves the call open, and goes home. Later a program that is no
    worker renders what waits, and settles the call by its id.`,

  async play({ stage, troupe, terminal, books, promises }) {
    // In the language that has not deferred a call yet, if there are two.
    const language = troupe.otherThan(await languageOfAsker(stage));
    const worker = await stage.startWorker("reports", language, "reports");
    const script = stage.startProgram("script-2", "async-tools/harness.mjs", [CAST.month]);
    script.mayEnd();
    await stage.until("the report's job", () => hasJob(stage.jobsFolder));
    await stage.until("the report's deferral", async () => {
      const { items } = await stage.client.calls.list({ tool: "reports.render", state: "deferred" });
      return items[0];
    });
    const { status: workerStatus } = await stage.meanwhile(worker.stop());
    terminal.act("the reports worker was told to stop, and has gone; the call waits");

    const render = stage.startProgram("render", "async-tools/render.mjs", [fileURLToPath(ORDERS_CSV)]);
    render.mayEnd();
    const { status } = await stage.meanwhile(render.ended);
    for (let line = render.takeResult(); line !== undefined; line = render.takeResult()) {
      terminal.relay("render", line);
    }
    const { callId, attempt, report } = await stage.jsonResult(script);
    const { status: scriptStatus } = await stage.meanwhile(script.ended);
    const call = await stage.client.calls.get(callId);
    const expected = books.orders.filter((row) => row["date"]?.startsWith(CAST.month));
    promises.check(
      "A call left open is settled by its id, by a process that is no worker.",
      `sales of ${report.month}: ${report.orders} orders, ${formatEuro(report.cents)}, as in the CSV; ` +
        `attempt ${attempt}, with its worker (in ${language}) long gone`,
      {
        "the report is that of the CSV":
          report.orders === expected.length && report.cents === totalOf(expected),
        "the worker took it on": call.worker === worker.name,
        "the worker stopped when told": workerStatus === 0,
        "the rendering program succeeded": status === 0,
        "the script succeeded": scriptStatus === 0,
        "the call has succeeded at attempt 1": call.state === "succeeded" && call.attempt === 1,
      },
    );
  },
};

/** @param {import("../stage.mjs").Stage} stage */
async function languageOfAsker(stage) {
  const { items } = await stage.client.calls.list({ tool: "ask_user" });
  return stage.languageOf(items[0]?.worker ?? "");
}

/** @param {string} folder */
async function hasJob(folder) {
  const names = await readdir(folder).catch(() => []);
  return names.some((name) => name.endsWith(".job.json")) || undefined;
}
