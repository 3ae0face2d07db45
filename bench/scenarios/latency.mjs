// How long one call takes when nothing else is under way.
import { countersSettled } from "../stage/database.mjs";
import { onStage, subjectStack, trunkline } from "../stage/stack.mjs";
import { percentile } from "../statistics.mjs";
import { byTurns } from "../turns.mjs";
import { LONE_WARM_UP } from "../warm-up.mjs";

const APART_MS = 20;
const BACK_TO_BACK_CALLS = 1_000;
const COUNTED_CALLS = 400;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function latency(setting) {
  await loneCalls(setting, [trunkline, ...setting.peers]);
  if (!setting.options.quick) await onStage((stage) => cost(setting, stage));
}

/**
 * Calls one at a time; of Trunkline also without a pause between.
 *
 * @param {import("../scenarios.mjs").Setting} setting
 * @param {readonly import("../peers.mjs").Contestant[]} contestants
 */
export async function loneCalls(setting, contestants) {
  const { report, options } = setting;
  const samples = await byTurns(options.runs, contestants, (contestant) =>
    onStage(async (stage) => {
      const stack = await warmStack(setting, stage, contestant);
      const apart = await timed(stack, { calls: options.loneCalls, pauseMs: APART_MS });
      if (stack.server === undefined) return { apart };
      return { apart, backToBack: await timed(stack, { calls: BACK_TO_BACK_CALLS, pauseMs: 0 }) };
    }),
  );
  for (const [{ subject }, each] of samples) {
    const figure = { scenario: "latency", subject };
    const backToBack = each.flatMap((sample) => (sample.backToBack === undefined ? [] : [sample.backToBack]));
    report.addAll({ ...figure, variant: "back to back" }, backToBack);
    report.addAll(
      { ...figure, variant: `${APART_MS} ms apart` },
      each.map(({ apart }) => apart),
    );
  }
}

async function warmStack({ postgres }, stage, contestant) {
  const stack = await subjectStack(stage, postgres, contestant, { load: "lone", callers: 1 });
  await stack.opener.ask("callers", LONE_WARM_UP);
  await stack.worker.ask("starts");
  return stack;
}

async function timed({ opener, worker }, options) {
  const { ms, openedAt } = await opener.ask("latency", options);
  const { times } = await worker.ask("starts");
  const starts = times.map((time, call) => time - openedAt[call]);
  return [
    { metric: "open to start, p50", unit: "ms", value: percentile(starts, 0.5) },
    { metric: "open to start, p99", unit: "ms", value: percentile(starts, 0.99) },
    { metric: "open to result, p50", unit: "ms", value: percentile(ms, 0.5) },
    { metric: "open to result, p99", unit: "ms", value: percentile(ms, 0.99) },
  ];
}

/** What a lone call costs the database, upkeep included. */
async function cost(setting, stage) {
  const { opener, database } = await warmStack(setting, stage, trunkline);
  await countersSettled();
  const before = await database.counters();
  await opener.ask("latency", { calls: COUNTED_CALLS, pauseMs: APART_MS });
  await countersSettled();
  const after = await database.counters();
  const each = (name) => (after[name] - before[name]) / COUNTED_CALLS;
  const figure = { scenario: "latency", variant: `${APART_MS} ms apart`, subject: "trunkline" };
  setting.report.addAll(figure, [
    [
      { metric: "commits, upkeep included", unit: "/call", value: each("commits") },
      { metric: "row versions", unit: "/call", value: each("versions") },
    ],
  ]);
}
