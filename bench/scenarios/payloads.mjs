// Calls whose input and result are large, beside the database alone at that size.
import { startProgram } from "../stage/program.mjs";
import { onStage, trunklineStack } from "../stage/stack.mjs";

const SIZES = [
  { variant: "100 B", bytes: 100, callers: 100, batch: 100 },
  { variant: "10 KB", bytes: 10_000, callers: 100, batch: 100 },
  // The server writes what is above 256 KiB alone.
  { variant: "1 MB", bytes: 1_000_000, callers: 20, batch: 1 },
];

/** @param {import("../scenarios.mjs").Setting} setting */
export async function payloads({ postgres, report, options }) {
  const seconds = options.quick ? 3 : 5;
  for (const { variant, bytes, callers, batch } of SIZES) {
    const measured = { trunkline: [], floor: [] };
    const pauses = [];
    await onStage(async (stage) => {
      const stackOptions = { callers, concurrency: callers, watched: true };
      const { opener, server } = await trunklineStack(stage, postgres, stackOptions);
      await opener.ask("callers", { seconds: 1, bytes });
      await server.longestPauseMs();
      await repeat(options.runs, measured.trunkline, () => opener.ask("callers", { seconds, bytes }));
      pauses.push(await server.longestPauseMs());
    });
    const figure = { scenario: "payloads", variant, subject: "trunkline" };
    report.add({ ...figure, metric: "longest pause of the server", unit: "ms" }, pauses);
    await onStage(async (stage) => {
      const { url } = await stage.database(postgres.url);
      const program = await stage.start(startProgram("database-floor", { url }));
      await program.ask("batches", { size: batch, seconds: 1, bytes });
      await repeat(options.runs, measured.floor, () =>
        program.ask("batches", { size: batch, seconds, bytes }),
      );
    });
    for (const [subject, rates] of Object.entries(measured)) {
      const figure = { scenario: "payloads", variant, subject };
      report.add({ ...figure, metric: "calls", unit: "calls/s" }, rates);
      // Input and result are both of this size.
      const megabytes = rates.map((rate) => (rate * 2 * bytes) / 1e6);
      report.add({ ...figure, metric: "payload", unit: "MB/s" }, megabytes);
    }
  }
}

async function repeat(runs, rates, measure) {
  for (let run = 0; run < runs; run++) {
    const { calls, seconds } = await measure();
    rates.push(calls / seconds);
  }
}
