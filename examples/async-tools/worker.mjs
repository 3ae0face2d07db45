/**
 * Takes reports on, and leaves their calls open: the answer comes later, from another program (render.mjs),
 * by the id of the call. Meanwhile nothing of this worker is needed, not even that it runs.
 *
 *     node worker.mjs [name]
 */
import { Trunkline } from "@trunkline/sdk";
import { saveJob } from "./jobs.mjs";

const trunkline = new Trunkline();

const worker = trunkline.worker({
  ...(process.argv[2] && { name: process.argv[2] }),
  tools: {
    "reports.render": async (/** @type {{ month: string }} */ { month }, ctx) => {
      // First the job, then the deferral: a crash between the two only takes the job on again.
      await saveJob({ callId: ctx.idempotencyKey, attempt: ctx.attempt, month });
      await ctx.defer({ timeout: "1h" });
      console.log(`took on the report of ${month}  (call ${ctx.idempotencyKey}, left open)`);
      // What is returned now is no answer.
    },
  },
});
console.log(`${worker.name} takes calls`);

for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => void worker.stop());
await worker.done;
