/**
 * A worker that does what each call's input tells it to, step by step, and tells its parent of everything.
 * It runs from the build, in a process of its own, so that it can be killed. See worker-process.ts.
 */

import { HostToolError, rawJson, Trunkline } from "@trunkline/sdk";

/** @typedef {import("./worker-process.js").Step} Step */
/** @typedef {import("./worker-process.js").WorkerProgramOptions} WorkerProgramOptions */
/** @typedef {import("./worker-process.js").WorkerCommand} WorkerCommand */
/** @typedef {import("./worker-process.js").WorkerEvent} WorkerEvent */

/** @type {WorkerProgramOptions} */
const options = JSON.parse(process.argv[2] ?? "");

/** Gates that the parent has opened, and who waits at one. */
const open = new Set();
/** @type {Map<string, (() => void)[]>} */
const waiting = new Map();

/** @param {WorkerEvent} event */
const tell = (event) => process.send?.(event);

/** @param {string} gate */
const passing = (gate) =>
  new Promise((resolve) => {
    if (open.has(gate)) resolve(undefined);
    else waiting.set(gate, [...(waiting.get(gate) ?? []), () => resolve(undefined)]);
  });

/** @param {unknown} error */
const textOf = (error) => (error instanceof Error ? `${error.name}: ${error.message}` : String(error));

/** @param {unknown} error */
const reasonOf = (error) =>
  typeof error === "object" && error !== null && "reason" in error ? String(error.reason) : undefined;

/**
 * @param {unknown} input
 * @param {import("@trunkline/sdk").ToolContext} ctx
 */
async function handle(input, ctx) {
  const { idempotencyKey: callId, attempt } = ctx;
  const about = { callId, attempt, tool: ctx.tool };
  /** @type {string | undefined} */
  let token;
  let isDeferred = false;
  tell({ type: "start", ...about, key: ctx.idempotencyKey });
  ctx.signal.addEventListener("abort", () =>
    tell({ type: "aborted", ...about, reason: reasonOf(ctx.signal.reason) ?? "" }),
  );
  const steps = /** @type {Step[]} */ (Array.isArray(input) ? input : []);
  for (const step of steps) {
    if ("wait" in step) {
      tell({ type: "waiting", ...about, gate: step.wait });
      await passing(step.wait);
    } else if ("token" in step) {
      token = ctx.newToken();
      tell({ type: "token", ...about, token });
    } else if ("defer" in step) {
      const deferring = ctx.defer({ ...step.defer, ...(token === undefined ? {} : { token }) });
      tell({ type: "deferring", ...about });
      const deferred = await deferring;
      isDeferred = true;
      tell({ type: "deferred", ...about, token: deferred.token, expiresAt: deferred.expiresAt?.getTime() });
    } else if ("throw" in step) {
      tell({ type: "end", ...about });
      if ("retryable" in step) throw new HostToolError(step.throw, { retryable: step.retryable });
      if ("data" in step) throw new HostToolError(step.throw, { data: step.data });
      throw new Error(step.throw);
    } else if ("return" in step) {
      tell({ type: "end", ...about });
      return step.return;
    } else if ("returnRaw" in step) {
      tell({ type: "end", ...about });
      return rawJson(step.returnRaw);
    } else if ("returnNested" in step) {
      tell({ type: "end", ...about });
      return rawJson("[".repeat(step.returnNested) + "]".repeat(step.returnNested));
    } else {
      tell({ type: "end", ...about });
      return "x".repeat(step.returnBytes - 2);
    }
  }
  tell({ type: "end", ...about });
  return isDeferred ? undefined : { worker: options.name, attempt, key: callId };
}

const client = new Trunkline({ url: options.url, onWarning: () => undefined });
const worker = client.worker({
  tools: Object.fromEntries(options.tools.map((tool) => [tool, handle])),
  concurrency: options.concurrency ?? 10,
  name: options.name,
  onError: (error, call) =>
    tell({ type: "error", message: textOf(error), reason: reasonOf(error), callId: call?.callId }),
});
worker.done.then(
  () => tell({ type: "stopped" }),
  (error) => tell({ type: "refused", message: textOf(error) }),
);

process.on("message", (/** @type {WorkerCommand} */ command) => {
  switch (command.type) {
    case "go":
      open.add(command.gate);
      for (const pass of waiting.get(command.gate) ?? []) pass();
      waiting.delete(command.gate);
      break;
    case "stop":
      void worker.stop();
      break;
    case "ping":
      tell({ type: "pong", number: command.number });
      break;
  }
});
process.once("SIGTERM", () => void worker.stop());
// When the worker has stopped, only the channel is left: without it the process ends.
void worker.done.finally(async () => {
  await client.close();
  process.disconnect();
});
// A parent that has died needs no worker.
process.once("disconnect", () => process.exit());
