// What a process has used.
import { readFile } from "node:fs/promises";

const TICKS_PER_SECOND = 100;

/** Places of what `/proc/PID/stat` tells, counted from behind the process's name. */
const PARENT = 1;
const OWN_TICKS = [11, 12];
const ENDED_CHILDREN_TICKS = [13, 14];

/**
 * What a process has used: CPU seconds, those of its children that have ended, and its memory in bytes.
 *
 * @param {number} pid
 */
export async function usage(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const seconds = (places) =>
    places.reduce((sum, place) => sum + Number(fields[place]), 0) / TICKS_PER_SECOND;
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const rss = Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) * 1024;
  return {
    parent: Number(fields[PARENT]),
    cpuSeconds: seconds(OWN_TICKS),
    endedChildrenSeconds: seconds(ENDED_CHILDREN_TICKS),
    rss,
  };
}
