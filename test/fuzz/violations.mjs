/** @typedef {import("./stage/server.mjs").Census} Census */
/**
 * What is known of a server when a fuzz run is over.
 *
 * @typedef {object} Seen
 * @property {Census | undefined} cold
 * @property {Census | undefined} before After the warm-up.
 * @property {Census | undefined} after
 * @property {readonly { inputs: number, heapBytes: number, rssBytes: number }[]} samples
 * @property {import("./fuzz.mjs").Leavings} leavings
 * @property {readonly number[]} usualMs
 * @property {readonly number[]} laterMs
 * @property {string | undefined} end How it ended while it was to run.
 * @property {string | undefined} stopped
 * @property {readonly string[]} faults
 * @property {number} secretsInLog
 * @property {readonly import("./stage/server.mjs").Stall[]} stalls
 * @property {import("./judge.mjs").Judge} judge
 * @property {readonly (readonly [number, string])[]} underWay
 */

const MIB = 2 ** 20;
/** Without garbage; what the inputs have made for good (keys, projects, runs' caches) is in it. */
const HEAP_GROWTH_BYTES = 24 * MIB;
/** With garbage, and what the allocator keeps. */
const RSS_GROWTH_BYTES = 160 * MIB;
/** Nobody else is served while a server computes. */
const STALL_MS = 2_000;
/** Connections to the database come and go. */
const DESCRIPTOR_GROWTH = 16;
const TIMER_GROWTH = 16;
/** A normal call afterwards, against before: this many times as long, and so much more. */
const SLOWER = 3;
const SLOWER_BY_MS = 100;

/**
 * What must not be.
 *
 * @param {Seen} seen
 * @returns {string[]}
 */
export function violationsOf(seen) {
  return [...lifeOf(seen), ...memoryOf(seen), ...leftoversOf(seen), ...answersOf(seen), ...logOf(seen)];
}

/** @param {Seen} seen */
function* lifeOf({ end, stopped, underWay, usualMs, laterMs, stalls }) {
  if (end !== undefined) {
    const inputs = underWay.map(([input, kind]) => `${input} (${kind})`).join(", ");
    yield `the server ended: ${end}; under way were the inputs ${inputs}`;
    return;
  }
  if (stopped !== "status 0") yield `the server did not stop in order: ${String(stopped)}`;
  for (const { cpuMs } of stalls.filter((stall) => stall.cpuMs > STALL_MS))
    yield `the server computed for ${cpuMs} ms at a stretch; allowed are ${STALL_MS} ms`;
  const [usual, later] = [middle(usualMs), middle(laterMs)];
  if (later === undefined) yield "a normal call had no result afterwards";
  else if (usual !== undefined && later > usual * SLOWER + SLOWER_BY_MS)
    yield `a normal call took ${later.toFixed(0)} ms afterwards; before it took ${usual.toFixed(0)} ms`;
}

/** @param {Seen} seen */
function* memoryOf({ before, after, end, leavings }) {
  if (end !== undefined || before === undefined || after === undefined) return;
  const heap = after.heapBytes - before.heapBytes;
  const rss = after.rssBytes - before.rssBytes;
  if (heap > HEAP_GROWTH_BYTES) yield `the heap grew by ${mib(heap)}; allowed are ${mib(HEAP_GROWTH_BYTES)}`;
  if (rss > RSS_GROWTH_BYTES) yield `the process grew by ${mib(rss)}; allowed are ${mib(RSS_GROWTH_BYTES)}`;
  const descriptors = after.descriptors - before.descriptors;
  if (descriptors > DESCRIPTOR_GROWTH + leavings.goaways)
    yield `${descriptors} more files are open than before`;
  const timers = after.timers - before.timers;
  if (timers > TIMER_GROWTH + leavings.goaways) yield `${timers} more timers are set than before`;
}

/** @param {Seen} seen */
function* leftoversOf({ leavings: { sockets, sessions, goaways }, end }) {
  if (end !== undefined) return;
  if (sockets > goaways) yield `${sockets} connections of clients that have gone are still open`;
  if (sessions > 0) yield `${sessions} sessions of clients that have gone are still attached`;
}

/** @param {Seen} seen */
function* answersOf({ judge }) {
  for (const [sort, count] of judge.sorts) yield `${count} times: ${sort}`;
  for (const { input, kind, code, text } of judge.findings)
    yield `input ${input} (${kind}): ${code}: ${JSON.stringify(text.slice(0, 300))}`;
}

/** @param {Seen} seen */
function* logOf({ faults, secretsInLog }) {
  if (secretsInLog > 0) yield `${secretsInLog} keys or tokens are in the log`;
  if (faults.length > 0) yield `the log tells of faults, in ${faults.length} lines`;
  for (const line of faults.slice(0, 10)) yield `log: ${line.slice(0, 1_500)}`;
}

/** @param {readonly number[]} sorted */
function middle(sorted) {
  return sorted[Math.floor(sorted.length / 2)];
}

/** @param {number} bytes */
function mib(bytes) {
  return `${(bytes / MIB).toFixed(0)} MiB`;
}
