/** @typedef {import("./events.mjs").Event} Event */
/** @typedef {import("./checker.mjs").Violation} Violation */
/** @typedef {Record<string, number>} Counts */

const SHOWN_PER_RULE = 3;
const SHOWN_EVENTS = 14;

/**
 * What a fault run did and what it found, for people and programs.
 *
 * @param {object} run
 * @param {import("./options.mjs").Options} run.options
 * @param {readonly Event[]} run.events
 * @param {readonly Violation[]} run.violations
 * @param {number} run.tookMs
 * @param {string} run.commit
 * @param {boolean} run.faketime
 * @param {Counts} run.lives How often programs of each kind were started.
 */
export function makeReport({ options, events, violations, tookMs, commit, faketime, lives }) {
  const rows = events.filter((event) => event.type === "row");
  const starts = events.filter((event) => event.type === "start");
  const lost = rows.filter(({ failure }) => failure?.kind === "worker_lost");
  return {
    ...{ seed: options.seed, seconds: options.seconds, nodes: options.nodes, commit },
    ...{ tookSeconds: Math.round(tookMs / 1_000), clocksShifted: faketime },
    calls: rows.length,
    callsByTool: countBy(rows, ({ tool }) => tool),
    outcomes: countBy(rows, ({ state, failure }) => (failure === null ? state : `${state}: ${failure.kind}`)),
    flow: flowOf(events),
    outcomeUnknown: rows.filter(({ failure }) => failure?.outcomeUnknown === true).length,
    lostByMode: countBy(lost, ({ mode }) => mode),
    starts: starts.length,
    attempts: rows.reduce((sum, { attempt }) => sum + attempt, 0),
    runs: events.filter(({ type }) => type === "run-row").length,
    turnsSettled: events.filter(({ type }) => type === "turn-settled").length,
    deferrals: events.filter(({ type }) => type === "deferred").length,
    answersFromOutside: events.filter(({ type }) => type === "answered").length,
    refusals: countBy(
      events.filter((event) => event.type === "refused"),
      ({ what, reason }) => `${what}: ${reason}`,
    ),
    workerErrors: countBy(
      events.filter((event) => event.type === "worker-error"),
      ({ reason }) => reason,
    ),
    lives,
    faults: countBy(
      events.filter((event) => event.type === "fault"),
      ({ kind }) => kind,
    ),
    faultsSkipped: countBy(
      events.filter((event) => event.type === "skipped"),
      ({ kind }) => kind,
    ),
    violations: violations.map(({ rule, message, events: shown }) => ({
      ...{ rule, message },
      lines: shown.map((event) => lineOf(event)),
    })),
  };
}

/** @param {ReturnType<typeof makeReport>} report */
export function printReport(report) {
  const { calls, seconds, starts, attempts, runs, turnsSettled, deferrals, answersFromOutside } = report;
  const say = console.log;
  say(
    `\n${calls} calls in ${runs} runs (${Math.round(calls / seconds)} a second), ended in ${report.tookSeconds} s`,
  );
  say(`  by tool         ${list(report.callsByTool)}`);
  say(`  outcomes        ${list(report.outcomes)}`);
  say(
    `  unknown         ${report.outcomeUnknown} outcomes; lost with their workers: ${list(report.lostByMode)}`,
  );
  say(`  attempts        ${attempts} made, ${starts} handlers started`);
  say(
    `  turns settled   ${turnsSettled}; deferrals ${deferrals}; answers from outside ${answersFromOutside}`,
  );
  say(`  refused         ${list(report.refusals)}`);
  say(`  workers told    ${list(report.workerErrors)}`);
  const { medianPerSecond, silentSeconds, longestSilence, settledSeconds } = report.flow;
  say(
    `  flow            ${medianPerSecond} outcomes in a median second; none in ${silentSeconds} seconds, ` +
      `at most ${longestSilence.seconds.toFixed(1)} s long (${list(longestSilence.faults)})`,
  );
  say(`  healed          the last call ended ${settledSeconds.toFixed(1)} s later`);
  const total = Object.values(report.faults).reduce((sum, count) => sum + count, 0);
  say(
    `${total} faults${report.clocksShifted ? "" : " (no clock was shifted: libfaketime is not installed)"}`,
  );
  for (const [kind, count] of Object.entries(report.faults)) say(`  ${kind.padEnd(28)} ${count}`);
  if (Object.keys(report.faultsSkipped).length > 0) say(`  came to nothing: ${list(report.faultsSkipped)}`);
  say(`  processes started: ${list(report.lives)}`);
  printViolations(report.violations);
}

/** @param {ReturnType<typeof makeReport>["violations"]} violations */
function printViolations(violations) {
  if (violations.length === 0) {
    console.log("\nno violation");
    return;
  }
  console.log(`\n${violations.length} VIOLATIONS`);
  for (const [rule, count] of Object.entries(countBy(violations, (violation) => violation.rule))) {
    console.log(`\n${rule}: ${count}`);
    for (const { message, lines } of violations
      .filter((each) => each.rule === rule)
      .slice(0, SHOWN_PER_RULE)) {
      console.log(`  ${message}`);
      for (const line of lines.slice(0, SHOWN_EVENTS)) console.log(`    ${line}`);
    }
  }
}

/** @param {Event} event */
function lineOf(event) {
  const { at, t, p, ...rest } = event;
  return `${at} ${(t / 1_000_000).toFixed(3)} ${p} ${JSON.stringify(rest).slice(0, 600)}`;
}

/**
 * How steadily harnesses were told of ends while faults went on, and which faults surround the longest silence.
 *
 * @param {readonly Event[]} events
 */
function flowOf(events) {
  const from = events.find(({ type }) => type === "clock")?.t ?? 0;
  const to = events.find(({ type }) => type === "healed")?.t ?? from;
  const all = events.flatMap(({ type, t }) => (type === "outcome" ? [t] : [])).sort((a, b) => a - b);
  const times = all.filter((t) => t >= from && t <= to);
  /** @type {number[]} */
  const seconds = Array.from({ length: Math.floor((to - from) / 1_000_000) }, () => 0);
  for (const t of times) {
    const second = Math.floor((t - from) / 1_000_000);
    seconds[second] = (seconds[second] ?? 0) + 1;
  }
  let longest = { began: from, tookUs: 0 };
  let last = from;
  for (const t of [...times, to]) {
    if (t - last > longest.tookUs) longest = { began: last, tookUs: t - last };
    last = t;
  }
  const around = events.filter(
    ({ type, t }) => type === "fault" && t > longest.began - 1_000_000 && t < longest.began + longest.tookUs,
  );
  return {
    settledSeconds: Math.max(0, ((all.at(-1) ?? to) - to) / 1_000_000),
    medianPerSecond: [...seconds].sort((a, b) => a - b)[Math.floor(seconds.length / 2)] ?? 0,
    silentSeconds: seconds.filter((count) => count === 0).length,
    longestSilence: {
      seconds: longest.tookUs / 1_000_000,
      faults: countBy(around, (event) => (event.type === "fault" ? event.kind : "")),
    },
  };
}

/**
 * @template T
 * @param {readonly T[]} items
 * @param {(item: T) => string} name
 * @returns {Counts} The most frequent first.
 */
function countBy(items, name) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const item of items) counts.set(name(item), (counts.get(name(item)) ?? 0) + 1);
  return Object.fromEntries([...counts].sort((a, b) => b[1] - a[1]));
}

/** @param {Counts} counts */
function list(counts) {
  const parts = Object.entries(counts).map(([name, count]) => `${name} ${count}`);
  return parts.length === 0 ? "none" : parts.join(", ");
}
