/**
 * Asks for the report of a month and waits for it, as long as that takes.
 *
 *     node harness.mjs 2025-03
 */
import { ToolError, Trunkline } from "@trunkline/sdk";

const [, , month = "2025-03"] = process.argv;
const trunkline = new Trunkline();
await trunkline.toolsets.put("reports", {
  "reports.render": {
    description: "Renders a month's sales report. This takes a while.",
    input: {
      type: "object",
      properties: { month: { type: "string", pattern: "^[0-9]{4}-[0-9]{2}$" } },
      required: ["month"],
    },
  },
});
const run = await trunkline.runs.create({ toolset: "reports", ttl: "1d" });
try {
  const call = await run.open("reports.render", { month });
  console.error(`asked for the report of ${month} (call ${call.id}); waiting`);
  const outcome = await call.outcome();
  if (outcome.state !== "succeeded") throw new ToolError(call.id, outcome.error);
  console.log(JSON.stringify({ callId: call.id, attempt: outcome.attempt, report: outcome.result }));
} finally {
  await run.end();
  await trunkline.close();
}
