/**
 * Starts a session with the tools that decide.mjs names, asks for the report of a month and waits for it. Run again
 * with the same month, also after a crash, it finds the same session, and the same call.
 *
 *     node session.mjs 2025-03
 */
import { ToolError, Trunkline } from "@trunkline/sdk";

const [, , month = "2025-03"] = process.argv;
const trunkline = new Trunkline();
try {
  const { run, agent } = await trunkline.sessions.start({ key: `report of ${month}`, ttl: "1d" });
  const call = await run.open("monthly_report", { month }, { key: "report" });
  console.error(`asked ${agent.model} for the report of ${month} (call ${call.id}); waiting`);
  const outcome = await call.outcome();
  if (outcome.state !== "succeeded") throw new ToolError(call.id, outcome.error);
  console.log(JSON.stringify({ callId: call.id, attempt: outcome.attempt, report: outcome.result }));
} finally {
  await trunkline.close();
}
