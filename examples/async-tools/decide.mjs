/**
 * Does what worker.mjs does, and names the tools as well: one function answers the start of a session, and every
 * call of its tools. A call that it answers with nothing stays open.
 *
 *     node decide.mjs [name]
 */
import { Trunkline } from "@trunkline/sdk";
import { saveJob } from "./jobs.mjs";

const agent = {
  model: "scripted",
  tools: [
    {
      name: "monthly_report",
      description: "Renders a month's sales report. This takes a while.",
      input: {
        type: "object",
        properties: { month: { type: "string", pattern: "^[0-9]{4}-[0-9]{2}$" } },
        required: ["month"],
      },
      // How long the report may take, left open or not.
      retry: { total_timeout_secs: 3600 },
    },
  ],
};

const trunkline = new Trunkline();

const decisions = trunkline.decisions({
  ...(process.argv[2] && { name: process.argv[2] }),
  decide: async ({ trigger }) => {
    if (trigger.type === "session.start") return { agent };
    const { month } = /** @type {{ month: string }} */ (trigger.input.value);
    // First the job, then the decision: a crash between the two only takes the job on again.
    await saveJob({ callId: trigger.id, attempt: trigger.attempt, month });
    console.log(`took on the report of ${month}  (call ${trigger.id}, left open)`);
    return {};
  },
});
console.log(`${decisions.name} takes calls`);

for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => void decisions.stop());
await decisions.done;
