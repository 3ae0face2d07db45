/**
 * Preloaded into a server by census.ts: at SIGUSR2 it writes what its process holds, after a collection of garbage, as
 * a line of JSON into the file that CENSUS_FILE names.
 */
import { appendFileSync, readdirSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const file = process.env["CENSUS_FILE"] ?? "";
setFlagsFromString("--expose_gc");
/** @type {() => void} */
const collect = runInNewContext("gc");

/** Timers that were set and neither fired nor cleared; Node names only those that keep the process alive. */
const timers = new Set();

for (const name of /** @type {const} */ (["setTimeout", "setInterval"])) {
  const set = globalThis[name];
  /**
   * @param {(...args: unknown[]) => void} callback
   * @param {number} [ms]
   * @param {...unknown} args
   */
  const counted = (callback, ms, ...args) => {
    const timer = set(() => {
      if (name === "setTimeout") timers.delete(timer);
      callback(...args);
    }, ms);
    timers.add(timer);
    return timer;
  };
  globalThis[name] = /** @type {any} */ (Object.assign(counted, set));
}
for (const name of /** @type {const} */ (["clearTimeout", "clearInterval"])) {
  const clear = globalThis[name];
  globalThis[name] = (timer) => {
    timers.delete(timer);
    clear(timer);
  };
}

process.on("SIGUSR2", () => {
  collect();
  const resources = process.getActiveResourcesInfo();
  const { rss, heapUsed } = process.memoryUsage();
  const census = {
    timers: timers.size,
    /** Sockets and servers. */
    handles: resources.filter((type) => /Wrap$/i.test(type)).length,
    descriptors: readdirSync("/proc/self/fd").length,
    heapBytes: heapUsed,
    rssBytes: rss,
  };
  appendFileSync(file, `${JSON.stringify(census)}\n`);
});
