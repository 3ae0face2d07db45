// Workers that serve several tools, with handlers that take a little.
import { Trunkline } from "@trunkline/sdk";
import { answerJobs, config } from "./answering.mjs";

const { url, tools, slots, handlerMs } = config;
const client = new Trunkline({ url });
let handled = 0;
let onHandled = () => undefined;
/** @type {Map<string, { n: number, at: number }[]>} */
const starts = new Map();

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function handler(input, { namespace }) {
  const at = performance.timeOrigin + performance.now();
  starts.get(namespace)?.push({ n: input.n, at });
  handled++;
  onHandled();
  await pause(handlerMs);
  return null;
}

const worker = await new Promise((resolve) => {
  const made = client.worker({
    concurrency: slots,
    tools: Object.fromEntries(tools.map((tool) => [tool, handler])),
    onStatus: (status) => status === "connected" && resolve(made),
  });
});

answerJobs({
  jobs: {
    /** Notes when the calls of this end user start, from now on. */
    watch: ({ namespace }) => void starts.set(namespace, []),
    /** When they started since this was asked last. */
    starts: ({ namespace }) => {
      const seen = starts.get(namespace);
      starts.set(namespace, []);
      return { starts: seen };
    },
    /** Resolves when so many more handlers have started. */
    reach: ({ calls }) => {
      const wanted = handled + calls;
      return new Promise((resolve) => {
        onHandled = () => {
          if (handled >= wanted) resolve({});
        };
        onHandled();
      });
    },
  },
  stop: () => worker.stop(),
});
