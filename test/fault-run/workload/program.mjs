/** What all programs of a fault run share: how they are told who they are, and how they end. */

/**
 * @typedef {object} ProgramConfig
 * @property {string} name
 * @property {number} life From 1.
 * @property {string} url Of the server, through a gate of the program's own.
 * @property {string} folder Where histories are.
 * @property {string} seed
 * @property {number} index From 0, among those of its kind.
 * @property {number} count Of its kind.
 * @property {number} ratePerSecond For harnesses.
 * @property {number} maxCalls For harnesses.
 */

/** @returns {ProgramConfig} */
export function readConfig() {
  const config = JSON.parse(process.env["FAULT_PROGRAM"] ?? "null");
  if (config === null) throw new Error("FAULT_PROGRAM: it is not set; fault-run/run.mjs sets it");
  // Without the driver there is nothing to do.
  process.on("disconnect", () => process.exit(1));
  return config;
}

/**
 * @param {Record<string, unknown>} message
 */
export function tellDriver(message) {
  // The driver may just have gone.
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}

/**
 * @param {number} ms
 * @param {AbortSignal} [signal] Ends it early.
 * @returns {Promise<void>}
 */
export function sleep(ms, signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const wake = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", wake);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    signal?.addEventListener("abort", wake);
  });
}
