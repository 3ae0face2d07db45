/** @typedef {Awaited<ReturnType<typeof import("./fuzz.mjs").fuzz>>} Report */
/** @typedef {import("./stage/server.mjs").Census} Census */

/**
 * What a fuzz run did and what it found, for people.
 *
 * @param {Report} report
 */
export function printReport(report) {
  const { inputs, tookSeconds, inputsByKind, answers, memory, usualMs, laterMs, leavings, violations } =
    report;
  const say = console.log;
  const rate = Math.round(inputs / tookSeconds);
  say(
    `\n${inputs} inputs in ${tookSeconds.toFixed(0)} s (${rate} a second); the longest took ${report.longestMs.toFixed(0)} ms`,
  );
  const stalls = report.stalls.map(
    ({ stalledMs, cpuMs }) => `${stalledMs} ms (${cpuMs} ms of them computing)`,
  );
  say(`${report.late} took more than 2 s; the server stood still for ${stalls.join(", ") || "no 300 ms"}`);
  for (const [kind, count] of Object.entries(inputsByKind)) {
    say(`  ${kind.padEnd(18)} ${String(count).padStart(7)}   ${list(answers[kind] ?? {})}`);
  }
  say(`memory      heap        RSS    files  timers`);
  for (const [name, census] of Object.entries({
    cold: memory.cold,
    before: memory.before,
    after: memory.after,
  }))
    say(`  ${name.padEnd(8)} ${censusText(census)}`);
  say(`a normal call: ${times(usualMs)} before, ${times(laterMs)} afterwards`);
  say(
    `left behind: ${leavings.sockets} connections (${leavings.goaways} may be), ${leavings.sessions} sessions; ${report.logLines} lines of log`,
  );
  if (violations.length === 0) say("\nno violation");
  else say(`\n${violations.length} VIOLATIONS\n${violations.map((each) => `  ${each}`).join("\n")}`);
}

/** @param {Census | undefined} census */
function censusText(census) {
  if (census === undefined) return "unknown";
  const { heapBytes, rssBytes, descriptors, timers } = census;
  const mib = (/** @type {number} */ bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`.padStart(10);
  return `${mib(heapBytes)} ${mib(rssBytes)} ${String(descriptors).padStart(6)} ${String(timers).padStart(6)}`;
}

/** @param {readonly number[]} sorted */
function times(sorted) {
  return sorted.length === 0 ? "none" : `${(sorted[Math.floor(sorted.length / 2)] ?? 0).toFixed(1)} ms`;
}

/** @param {Readonly<Record<string, number>>} counts The most frequent first. */
function list(counts) {
  const sorted = Object.entries(counts).sort(([, a], [, b]) => b - a);
  return sorted.map(([name, count]) => `${name} ${count}`).join(", ");
}
