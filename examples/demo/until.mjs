import { setTimeout as delay } from "node:timers/promises";

const LOOK_AGAIN_MS = 25;

/**
 * Looks until there is something to see.
 *
 * @template T
 * @param {string} what For the error.
 * @param {() => Promise<T | undefined> | T | undefined} look
 * @param {{ signal: AbortSignal, timeoutMs: number }} limits
 * @returns {Promise<T>} What was seen.
 * @throws {Error} When time is up, or the signal aborts: with its reason.
 */
export async function until(what, look, { signal, timeoutMs }) {
  const endsAt = performance.now() + timeoutMs;
  for (;;) {
    signal.throwIfAborted();
    const seen = await look();
    if (seen !== undefined) return seen;
    if (performance.now() > endsAt) throw new Error(`${what}: not seen in ${timeoutMs / 1000} s`);
    // Aborted or not, the next round says so.
    await delay(LOOK_AGAIN_MS);
  }
}
