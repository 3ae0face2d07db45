// What a benchmark asks of everything that it measures: the same work from each.

/**
 * What is asked of a subject: one call at a time, many callers that await their results, many opens in flight whose
 * results nobody awaits, or many calls at once.
 *
 * @typedef {"lone" | "awaited" | "unawaited" | "bulk"} Load
 */

/**
 * What a subject is tuned by: how many handlers run at once, and whatever else it has.
 *
 * @typedef {{ concurrency: number, [name: string]: any }} Settings
 */

/**
 * The side that opens calls.
 *
 * @typedef {object} Opener
 * @property {(input: object) => Promise<unknown>} call Opens a call and waits for its result.
 * @property {(input: object) => Promise<unknown>} open Opens a call; resolves when it is stored.
 * @property {(inputs: object[]) => Promise<unknown>} openMany Opens many in the fastest way that there is; resolves
 *   when all are stored.
 * @property {() => Promise<unknown>} drained Resolves when all opened calls have ended and their results are stored;
 *   where results come by themselves, when they are known here.
 * @property {() => Promise<unknown>} close
 */

/**
 * Something to measure: a module of this folder or of `peers/` exports one as `subject`. Opener and worker are
 * made in two processes, the opener first.
 *
 * @typedef {object} Subject
 * @property {Readonly<Record<Load, Settings>>} settings The fastest that were found for each load, of those that the
 *   subject's documents name. What its module says was tried was so with `tune.mjs`, by turns, on two busy cores: the
 *   figures compare settings, not subjects.
 * @property {(url: string, settings: Settings) => Promise<Opener>} openerOf Also makes what both need.
 * @property {(url: string, options: { settings: Settings, handler: (input: any) => unknown }) =>
 *   Promise<{ stop: () => Promise<unknown> }>} workerOf
 */

/**
 * @param {string} module Its path from the folder of the benchmarks.
 * @returns {Promise<Subject>}
 */
export async function loadSubject(module) {
  const { subject } = await import(new URL(`../${module}`, import.meta.url).href);
  return subject;
}

/**
 * What a process of a benchmark was told of its subject's settings: those for a load, some of them replaced.
 *
 * @param {Subject} subject
 * @param {{ load?: Load, concurrency?: number, settings?: Partial<Settings> }} config
 * @returns {Settings}
 */
export function settingsOf({ settings }, { load = "awaited", concurrency, settings: replaced = {} }) {
  return { ...settings[load], ...(concurrency === undefined ? {} : { concurrency }), ...replaced };
}
