// What every program of a benchmark does: read its configuration, do jobs when told to, stop in order.

/** What the process that started this one gave it. */
export const config = JSON.parse(process.env.BENCH_CONFIG ?? "{}");

/**
 * Tells the parent that the program is ready, and answers each of its messages by the job that it names.
 *
 * @param {object} program
 * @param {Record<string, (options: any) => unknown>} program.jobs
 * @param {() => unknown} program.stop What ends it in order.
 * @param {unknown} [program.ready] What the parent is told at the start.
 */
export function answerJobs({ jobs, stop, ready = {} }) {
  process.on("message", async (/** @type {{ job: string }} */ { job, ...options }) => {
    try {
      process.send((await jobs[job](options)) ?? {});
    } catch (error) {
      console.error(error);
      process.exit(1);
    }
  });
  process.on("SIGTERM", async () => {
    await stop();
    process.exit(0);
  });
  process.send(ready);
}
