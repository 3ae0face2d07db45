// The memory of a process without what it could give back.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const ROUNDS = 5;
const PAUSE_MS = 200;

/** Has V8 collect everything that nobody holds, and what that leaves behind; resolves with the bytes in use then. */
export async function settledMemory() {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  for (let round = 0; round < ROUNDS; round++) {
    collect({ type: "major", execution: "sync", flavor: "last-resort" });
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  return process.memoryUsage.rss();
}
