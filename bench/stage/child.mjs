// Ends child processes in order.
import { once } from "node:events";

/**
 * Asks a process to stop and waits for its end.
 *
 * @param {import("node:child_process").ChildProcess} child
 */
export async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  await once(child, "exit");
}

/** Node's options for every process of a benchmark: BENCH_CPU_PROF names a folder for profiles. */
export function nodeOptions() {
  const folder = process.env.BENCH_CPU_PROF;
  return folder === undefined ? [] : ["--cpu-prof", "--cpu-prof-dir", folder];
}
