/** A worker with the tools that `npx trunkline conformance` calls: start from it, and put yours in their place. */
import { setTimeout as delay } from "node:timers/promises";
import { ToolError, typed, type Handler } from "./trunkline/call.js";
import { runWorker } from "./trunkline/worker.js";

const tools: Record<string, Handler> = {
  echo: ({ inputJson }) => inputJson, // never parsed, so that no digit is lost

  fail: typed((input: { message: string; data?: unknown; retryable?: boolean }) => {
    throw new ToolError(input.message, input);
  }),

  crash: typed((input: { message: string }) => {
    throw new Error(input.message);
  }),

  sleep: typed(async (input: { ms: number }, { callId, signal }) => {
    signal.addEventListener("abort", () => console.log(`stopped ${callId}`));
    await delay(input.ms, undefined, { signal });
    return { slept: true };
  }),

  defer: typed(async (input: { timeout_ms: number }, call) => {
    const token = call.newToken(); // a real tool stores it here, before anything can go wrong
    await call.defer(token, input.timeout_ms === 0 ? undefined : input.timeout_ms);
    console.log(`token ${token}`); // and publishes it here, where it is good
  }),

  big: typed((input: { bytes: number }) => "x".repeat(input.bytes)),
};

const announced =
  (handler: Handler): Handler =>
  (call) => {
    console.log(`started ${call.callId} ${call.attempt}`);
    return handler(call);
  };

const { TRUNKLINE_URL, TRUNKLINE_KEY, TRUNKLINE_WORKER, TRUNKLINE_CONCURRENCY } = process.env;

const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());
process.once("SIGINT", () => stop.abort());

try {
  await runWorker(
    {
      url: TRUNKLINE_URL || "http://127.0.0.1:7788",
      key: TRUNKLINE_KEY,
      name: TRUNKLINE_WORKER || "grpc-js",
      slots: Number(TRUNKLINE_CONCURRENCY || 10),
      tools: Object.fromEntries(Object.entries(tools).map(([name, handler]) => [name, announced(handler)])),
      log: console.error,
    },
    stop.signal,
  );
} catch (error) {
  console.error("the worker has ended:", error);
  process.exitCode = 1;
}
