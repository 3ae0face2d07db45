/**
 * Renders the reports that wait, and ends their calls by id. Run it when it suits you: by hand, every night,
 * on another machine.
 *
 *     node render.mjs ORDERS.csv       lines of id,customer,date,item,quantity,total_eur,status
 */
import { readFile } from "node:fs/promises";
import { Trunkline, TrunklineError } from "@trunkline/sdk";
import { listJobs, removeJob, saveReport } from "./jobs.mjs";

const [, , ordersFile] = process.argv;
if (ordersFile === undefined) {
  console.error("usage: node render.mjs ORDERS.csv");
  process.exit(2);
}
const lines = (await readFile(ordersFile, "utf8")).trimEnd().split("\n").slice(1);

const trunkline = new Trunkline();
for (const job of await listJobs()) {
  const result = await render(job);
  await settle(job, result);
  // Only now: a crash before this line renders the report again, and its second answer changes nothing.
  await removeJob(job);
}
await trunkline.close();

/**
 * Adds the month's orders up.
 *
 * @param {import("./jobs.mjs").Job} job
 */
async function render(job) {
  let cents = 0;
  let orders = 0;
  for (const line of lines) {
    const total = /,(\d+)\.(\d\d),\w+$/.exec(line);
    if (total === null || !line.includes(`,${job.month}-`)) continue;
    orders += 1;
    cents += Number(total[1]) * 100 + Number(total[2]);
  }
  const text = `# Sales in ${job.month}\n\n${orders} orders, ${(cents / 100).toFixed(2)} EUR\n`;
  return { month: job.month, orders, cents, file: await saveReport(job, text) };
}

/**
 * @param {import("./jobs.mjs").Job} job
 * @param {object} result
 */
async function settle({ callId, attempt, month }, result) {
  try {
    await trunkline.calls.settle(callId, { type: "tool.result", result, attempt });
    console.log(`settled the report of ${month}  (call ${callId})`);
  } catch (error) {
    // Canceled, timed out or tried again meanwhile: nobody waits for this answer any more.
    const late =
      error instanceof TrunklineError && /^(CALL_ENDED|STALE_ATTEMPT|NOT_FOUND)$/.test(error.reason);
    if (!late) throw error;
    console.log(`the report of ${month} comes too late: ${error.message}`);
  }
}
