// An end user: opens calls of some tools, by turns.
import { Trunkline } from "@trunkline/sdk";
import { answerJobs, config } from "./answering.mjs";

const { url, namespace, tools } = config;
const client = new Trunkline({ url });
const run = await client.runs.create({ namespace });
let next = 0;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const toolOf = (n) => tools[n % tools.length];

answerJobs({
  jobs: {
    /** Callers that each await their result before the next call. */
    callers: async ({ callers, seconds }) => {
      const until = performance.now() + seconds * 1_000;
      const loop = async () => {
        while (performance.now() < until) {
          const n = next++;
          await run.call(toolOf(n), { n });
        }
      };
      await Promise.all(Array.from({ length: callers }, loop));
    },
    /** One call after the other, whatever becomes of those before it; when each was opened. */
    steadily: async ({ calls, everyMs }) => {
      const opened = [];
      const results = [];
      const startedAt = performance.now();
      for (let count = 0; count < calls; count++) {
        await pause(Math.max(0, startedAt + count * everyMs - performance.now()));
        const n = next++;
        opened.push({ n, at: performance.timeOrigin + performance.now() });
        results.push(run.call(toolOf(n), { n }));
      }
      await Promise.all(results);
      return { opened };
    },
  },
  stop: () => client.close(),
});
