// Loaded into a server beside its own code: tells the longest pause of its event loop when it is asked.
import { monitorEventLoopDelay } from "node:perf_hooks";

const RESOLUTION_MS = 5;
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
delay.enable();

process.on("message", (question) => {
  if (question !== "pause?") return;
  const longestMs = delay.max / 1e6;
  delay.reset();
  process.send({ longestMs });
});
process.channel.unref();
