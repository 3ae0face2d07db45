// What a benchmark asks of everything that it measures: the same work from each.

/**
 * The side that opens calls.
 *
 * @typedef {object} Opener
 * @property {(input: object) => Promise<unknown>} call Opens a call and waits for its result.
 * @property {(input: object) => Promise<unknown>} open Opens a call; resolves when it is stored.
 * @property {((inputs: object[]) => Promise<unknown>) | undefined} [openMany] Opens many in the fastest way that
 *   there is; resolves when all are stored. Without it there is no such way.
 * @property {() => Promise<unknown>} drained Resolves when all opened calls have ended and their results are stored;
 *   where results come by themselves, when they are known here.
 * @property {() => Promise<unknown>} close
 */

/**
 * The side that runs handlers.
 *
 * @typedef {object} WorkerOptions
 * @property {number} concurrency
 * @property {(input: any) => unknown} handler
 */

/**
 * Something to measure: a module of this folder or of `peers/` exports one as `subject`. Opener and worker are
 * made in two processes, the opener first.
 *
 * @typedef {object} Subject
 * @property {(url: string, options: { callers: number }) => Promise<Opener>} openerOf Also makes what both need.
 * @property {(url: string, options: WorkerOptions) => Promise<{ stop: () => Promise<unknown> }>} workerOf
 */

/**
 * @param {string} module Its path from the folder of the benchmarks.
 * @returns {Promise<Subject>}
 */
export async function loadSubject(module) {
  const { subject } = await import(new URL(`../${module}`, import.meta.url).href);
  return subject;
}
