/**
 * A worker on the SDK, by the contract of the conformance kit:
 *
 *     npx trunkline conformance -- node worker.mjs
 */
import { setTimeout as delay } from "node:timers/promises";
import { HostToolError, rawJson, Trunkline } from "@trunkline/sdk";

const { TRUNKLINE_URL, TRUNKLINE_KEY, TRUNKLINE_WORKER, TRUNKLINE_CONCURRENCY = "10" } = process.env;

/** @type {Record<string, import("@trunkline/sdk").ToolHandler>} */
const tools = {
  // The text as it came: a parsed number would lose digits.
  echo: (_, { inputJson }) => rawJson(inputJson),

  fail: (/** @type {{ message: string, data?: unknown, retryable?: boolean }} */ input) => {
    const { message, ...options } = input;
    throw new HostToolError(message, options);
  },

  crash: (/** @type {{ message: string }} */ { message }) => {
    throw new Error(message);
  },

  sleep: async (/** @type {{ ms: number }} */ { ms }, { signal, idempotencyKey }) => {
    signal.addEventListener("abort", () => console.log(`stopped ${idempotencyKey}`));
    await delay(ms, undefined, { signal });
    return { slept: true };
  },

  defer: async (/** @type {{ timeout_ms: number }} */ { timeout_ms: ms }, { defer }) => {
    const { token } = await defer(ms === 0 ? {} : { timeout: `${ms}ms` });
    console.log(`token ${token}`);
  },

  big: (/** @type {{ bytes: number }} */ { bytes }) => "x".repeat(bytes),
};

/**
 * Says when a handler starts.
 *
 * @param {import("@trunkline/sdk").ToolHandler} handle
 * @returns {import("@trunkline/sdk").ToolHandler}
 */
const announced = (handle) => (input, context) => {
  console.log(`started ${context.idempotencyKey} ${context.attempt}`);
  return handle(input, context);
};

const trunkline = new Trunkline({ url: TRUNKLINE_URL, key: TRUNKLINE_KEY });
const worker = trunkline.worker({
  tools: Object.fromEntries(Object.entries(tools).map(([name, handle]) => [name, announced(handle)])),
  name: TRUNKLINE_WORKER,
  concurrency: Number(TRUNKLINE_CONCURRENCY),
});

// Finishes what it has begun, hands back what it has not, then ends.
process.once("SIGTERM", () => void worker.stop());
// Rejects when the server refuses the key, which ends the program with another code than 0.
await worker.done;
