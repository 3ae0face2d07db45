// A worker whose handler does nothing, or holds its calls until it is told to let go.
import { Trunkline } from "@trunkline/sdk";

const { url, concurrency, hold = false } = JSON.parse(process.env.BENCH_CONFIG);
const trunkline = new Trunkline({ url });
/** @type {(value?: unknown) => void} */
let letGo;
const released = new Promise((resolve) => {
  letGo = resolve;
});
let started = [];
const worker = trunkline.worker({
  concurrency,
  tools: {
    noop: async (input) => {
      started.push(performance.timeOrigin + performance.now());
      if (hold) await released;
      return input;
    },
  },
});
process.on("message", (message) => {
  if (message === "let go") letGo();
  const times = started;
  started = [];
  process.send({ times: message === "times" ? times : [] });
});
process.on("SIGTERM", () => {
  void worker.stop().then(() => process.exit(0));
});
process.send("ready");
