// Many workers in one process, each with a connection and a session of its own, which wait for calls.
import { Trunkline } from "@trunkline/sdk";
import { answerJobs, config } from "./answering.mjs";

const { url, workers: count } = config;
const client = new Trunkline({ url });
let connected = 0;
let allConnected = () => undefined;
const ready = new Promise((resolve) => {
  allConnected = () => resolve(undefined);
});

const workers = Array.from({ length: count }, (_, index) => {
  let seen = false;
  return client.worker({
    name: `idle-${process.pid}-${index}`,
    tools: { noop: async (input) => input },
    onStatus: (status) => {
      if (seen || status !== "connected") return;
      seen = true;
      if (++connected === count) allConnected();
    },
  });
});
await ready;

answerJobs({
  jobs: {},
  stop: async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
    await client.close();
  },
});
