/**
 * Does tasks (see tasks.mjs) by calling tools, in one run. Each task prints its result as a line of JSON on
 * standard output; what the script says meanwhile goes to standard error.
 *
 *     node harness.mjs customer mara.adeyemi@example.com
 *     node harness.mjs < tasks.txt        one task per line
 */
import { createInterface } from "node:readline";
import { ToolError, Trunkline } from "@trunkline/sdk";
import { tasks } from "./tasks.mjs";
import { tools, TOOLSET } from "./toolset.mjs";

/** The run acts for one of the two shops: tools see this shop's customers only. */
const { SHOP = "harbour" } = process.env;

const trunkline = new Trunkline();
await trunkline.toolsets.put(TOOLSET, tools);
const run = await trunkline.runs.create({ namespace: SHOP, toolset: TOOLSET, ttl: "7d" });
console.error(`run ${run.id}`);

const [, , ...given] = process.argv;
if (given.length > 0) await perform(given);
else for await (const line of createInterface({ input: process.stdin })) await perform(line.split(" "));

await run.end();
await trunkline.close();

/** @param {string[]} words A task's name and what it is about. */
async function perform([name = "", ...about]) {
  const task = Object.hasOwn(tasks, name) ? tasks[name] : undefined;
  if (task === undefined) {
    console.error(`task "${name}"; there are ${Object.keys(tasks).join(", ")}`);
    process.exitCode = 2;
    return;
  }
  const startedAt = performance.now();
  try {
    const result = await task(run, ...about);
    console.log(JSON.stringify({ task: name, ms: Math.round(performance.now() - startedAt), ...result }));
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    const { kind, message, callId } = error;
    console.log(JSON.stringify({ task: name, failed: { kind, message, callId } }));
    process.exitCode = 1;
  }
}
