// Waits for what nobody tells.

const PAUSE_MS = 5;

/**
 * Resolves when `isDone` says so; it is asked again and again.
 *
 * @param {() => Promise<boolean>} isDone
 */
export async function until(isDone) {
  while (!(await isDone())) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
}
