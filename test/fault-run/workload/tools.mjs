import { createHash } from "node:crypto";

/** @typedef {import("../random.mjs").Random} Random */
/** @typedef {import("../events.mjs").Bounds} Bounds */

/**
 * What a call asks of its handler, and of whoever answers in its place; that is all that anybody goes by,
 * so that every result can be checked.
 *
 * @typedef {object} Input
 * @property {string} n Like no other call's.
 * @property {number} ms How long the handler takes...
 * @property {number} slow ...or, in attempts up to this one, `slowMs`.
 * @property {number} slowMs
 * @property {boolean} obeys Whether it stops when its signal aborts.
 * @property {number} fails Attempts up to this one fail and ask for another.
 * @property {"result" | "error" | "exception" | "defer"} ending
 * @property {AnswerPlan} [answer] For deferred and client calls.
 */

/**
 * How somebody else answers.
 *
 * @typedef {object} AnswerPlan
 * @property {number} delayMs
 * @property {"complete" | "fail" | "settle" | "refuse"} how By token with a result or failure; by id likewise.
 * @property {number} retries Attempts up to this one are failed with a retryable failure.
 * @property {boolean} patient Only when all faults are over.
 * @property {boolean} contested Two answer differently at the same time.
 */

/**
 * @typedef {object} Tool
 * @property {number} weight How many of 100 calls, roughly.
 * @property {boolean} [client] Executed by the harness's side.
 * @property {import("@trunkline/sdk").Policy} policy
 * @property {(random: Random) => Partial<Input>} input
 */

const LEASE = /** @type {const} */ ({ heartbeatTimeout: "2s", detachGrace: "700ms" });
const BACKOFF = /** @type {const} */ ({ initial: "100ms", factor: 2, max: "1s" });
const RETRY = { ...LEASE, mode: /** @type {const} */ ("retry"), maxAttempts: 8, backoff: BACKOFF };
const ONCE = { ...LEASE, mode: /** @type {const} */ ("at_most_once") };

/** @type {(random: Random, longestMs: number) => AnswerPlan} */
const answerPlan = (random, longestMs) => ({
  delayMs: random.int(0, longestMs),
  how: random.pick(["complete", "complete", "complete", "fail", "settle", "refuse"]),
  retries: random.chance(0.2) ? random.int(1, 2) : 0,
  patient: false,
  contested: random.chance(0.3),
});

/** @type {Readonly<Record<string, Tool>>} */
export const TOOLS = {
  fast: { weight: 36, policy: RETRY, input: () => ({}) },
  slow: {
    weight: 12,
    policy: RETRY,
    input: (random) => ({ ms: random.int(30, 1_200), obeys: random.chance(0.5) }),
  },
  flaky: {
    weight: 8,
    policy: { ...RETRY, maxAttempts: 4 },
    input: (random) => ({ ms: random.int(0, 20), fails: random.int(0, 5) }),
  },
  thrower: {
    weight: 4,
    policy: RETRY,
    input: (random) => ({ ending: random.pick(["error", "exception"]) }),
  },
  once_fast: { weight: 14, policy: ONCE, input: () => ({}) },
  once_slow: {
    weight: 8,
    policy: ONCE,
    input: (random) => ({ ms: random.int(30, 1_200), obeys: random.chance(0.5) }),
  },
  timed: {
    weight: 3,
    policy: { ...RETRY, maxAttempts: 3, attemptTimeout: "400ms" },
    input: (random) => ({ ms: 10, slow: random.int(0, 3), slowMs: 700, obeys: random.chance(0.5) }),
  },
  limited: {
    weight: 2,
    policy: { ...RETRY, totalTimeout: "800ms" },
    input: (random) => ({ ms: random.int(0, 1_500), obeys: true }),
  },
  deferred: {
    weight: 6,
    policy: RETRY,
    input: (random) => ({ ending: "defer", answer: answerPlan(random, 1_500) }),
  },
  once_deferred: {
    weight: 2,
    policy: ONCE,
    input: (random) => ({ ending: "defer", answer: answerPlan(random, 1_500) }),
  },
  urgent: {
    weight: 1.5,
    policy: { ...RETRY, deferTimeout: "1s" },
    input: (random) => ({ ending: "defer", answer: answerPlan(random, 2_500) }),
  },
  patient: {
    weight: 0.5,
    policy: RETRY,
    input: (random) => ({
      ending: "defer",
      answer: { ...answerPlan(random, 0), retries: 0, patient: true },
    }),
  },
  ask: {
    weight: 3,
    client: true,
    policy: RETRY,
    input: (random) => ({ answer: { ...answerPlan(random, 1_500), how: "settle" } }),
  },
};

/** The names of those that workers have handlers for. */
export const WORKER_TOOLS = Object.keys(TOOLS).filter((name) => TOOLS[name]?.client !== true);

/**
 * A tool, as often as its weight says.
 *
 * @param {Random} random
 */
export function pickTool(random) {
  const total = Object.values(TOOLS).reduce((sum, { weight }) => sum + weight, 0);
  let at = random.next() * total;
  for (const [name, { weight }] of Object.entries(TOOLS)) {
    at -= weight;
    if (at < 0) return name;
  }
  return "fast";
}

/** @param {string} name */
export function toolOf(name) {
  const tool = TOOLS[name];
  if (tool === undefined) throw new Error(`no tool ${name}`);
  return tool;
}

/**
 * @param {string} name
 * @param {string} n
 * @param {Random} random
 * @returns {Input}
 */
export function makeInput(name, n, random) {
  const rest = toolOf(name).input(random);
  return { n, ms: 0, slow: 0, slowMs: 0, obeys: false, fails: 0, ending: "result", ...rest };
}

/**
 * What the checker judges by.
 *
 * @param {string} name
 * @returns {Bounds}
 */
export function boundsOf(name) {
  const { mode, maxAttempts, attemptTimeout, totalTimeout, deferTimeout } = toolOf(name).policy;
  return {
    mode: mode ?? "retry",
    maxAttempts: maxAttempts ?? 1,
    attemptMs: milliseconds(attemptTimeout),
    totalMs: milliseconds(totalTimeout),
    deferMs: milliseconds(deferTimeout),
  };
}

/** @param {string | undefined} duration Of those above. */
function milliseconds(duration) {
  if (duration === undefined) return null;
  return duration.endsWith("ms") ? Number(duration.slice(0, -2)) : Number(duration.slice(0, -1)) * 1_000;
}

/**
 * The part of a result that the input alone decides.
 *
 * @param {string} inputJson
 */
export function sumOf(inputJson) {
  return createHash("sha256").update(inputJson).digest("hex").slice(0, 16);
}
