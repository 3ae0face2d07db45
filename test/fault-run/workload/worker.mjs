/** A worker whose handlers do what their inputs say, and write down when they start and how they end. */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { HostToolError, Trunkline, TrunklineError } from "@trunkline/sdk";
import { History } from "../history.mjs";
import { readConfig, sleep, tellDriver } from "./program.mjs";
import { sumOf, WORKER_TOOLS } from "./tools.mjs";

/** @typedef {import("@trunkline/sdk").ToolContext} ToolContext */
/** @typedef {import("./tools.mjs").Input} Input */
/** @typedef {import("../events.mjs").Said} Said */

const config = readConfig();
const history = new History(config.folder, config.name, config.life);
const concurrency = 12 + 4 * config.index;
const tokens = join(config.folder, `${config.name}.tokens.jsonl`);
if (config.life > 1) appendFileSync(tokens, "\n");

history.write({ type: "life", concurrency });

/**
 * @param {string} tool
 * @returns {import("@trunkline/sdk").ToolHandler}
 */
const handler = (tool) => async (input, context) => {
  const { idempotencyKey: id, runId, seq, attempt, inputJson } = context;
  history.write({ type: "start", id, call: `${runId}/${seq}`, attempt, tool, inputJson });
  // Every call's input is made by `makeInput`.
  const plan = /** @type {Input} */ (input);
  await sleep(attempt <= plan.slow ? plan.slowMs : plan.ms, plan.obeys ? context.signal : undefined);
  const deferring = plan.ending === "defer" && attempt > plan.fails;
  const said = deferring ? await defer(plan, context) : say(plan, context);
  history.write({ type: "end", id, attempt, said });
  if (said === null) return undefined;
  if (said.failure === undefined) return JSON.parse(said.resultJson);
  const { kind, message, retryable } = said.failure;
  if (kind === "exception") throw new TypeError(message.replace("TypeError: ", ""));
  throw new HostToolError(message, { retryable });
};

/**
 * @param {Input} plan
 * @param {ToolContext} context
 * @returns {Said}
 */
function say(plan, { attempt, inputJson }) {
  const by = `attempt ${attempt} by ${config.name}#${config.life}`;
  if (attempt <= plan.fails) return { failure: { kind: "tool", message: `not yet: ${by}`, retryable: true } };
  switch (plan.ending) {
    case "error":
      return { failure: { kind: "tool", message: `refused: ${by}`, retryable: false } };
    case "exception":
      return { failure: { kind: "exception", message: `TypeError: broken: ${by}`, retryable: false } };
    default:
      return { resultJson: JSON.stringify({ sum: sumOf(inputJson), by }) };
  }
}

/**
 * @param {Input} plan
 * @param {ToolContext} context
 * @returns {Promise<null>}
 */
async function defer(plan, context) {
  const { idempotencyKey: id, attempt } = context;
  const token = context.newToken();
  // Saved before anything can go wrong; it is good once the deferral is stored.
  appendFileSync(tokens, `${JSON.stringify({ id, attempt, token, plan, inputJson: context.inputJson })}\n`);
  history.write({ type: "deferring", id, attempt });
  try {
    await context.defer({ token });
    history.write({ type: "deferred", id, attempt });
  } catch (error) {
    const reason = error instanceof TrunklineError ? error.reason : "ABORTED";
    history.write({ type: "refused", what: "defer", subject: id, reason, message: String(error) });
  }
  return null;
}

const trunkline = new Trunkline({ url: config.url, onWarning: () => undefined });
const worker = trunkline.worker({
  name: `${config.name}#${config.life}`,
  concurrency,
  tools: Object.fromEntries(WORKER_TOOLS.map((tool) => [tool, handler(tool)])),
  onError: (error, call) => {
    const known = error instanceof TrunklineError;
    // What handlers throw on purpose is no news.
    if (!known && call !== undefined) return;
    const reason = known ? error.reason : "EXCEPTION";
    history.write({ type: "worker-error", id: call?.callId ?? null, reason, message: String(error) });
  },
});
process.on("SIGTERM", () => {
  void worker.stop().then(() => process.exit(0));
});
worker.done.catch((/** @type {unknown} */ error) => {
  console.error(error);
  process.exit(1);
});
tellDriver({ type: "ready" });
