import { setTimeout as delay } from "node:timers/promises";

/** Far above what anything here takes, and below a test's own limit. */
const DEADLINE_MS = 20_000;
const LOOK_AGAIN_MS = 15;

/** What a look can say: a falsy value means "not yet". */
type Look<T> = () => T | Promise<T>;

type Seen<T> = Exclude<T, undefined | null | false | 0 | "">;

/**
 * Looks until there is something to see, and gives it.
 *
 * @param what what is waited for, for the error
 * @throws when it is not seen before the deadline
 */
export async function until<T>(what: string, look: Look<T>, withinMs = DEADLINE_MS): Promise<Seen<T>> {
  const endsAt = performance.now() + withinMs;
  for (;;) {
    const seen = await look();
    // Falsy values are what the type leaves out.
    if (seen) return seen as Seen<T>;
    if (performance.now() > endsAt) throw new Error(`not seen within ${withinMs} ms: ${what}`);
    await delay(LOOK_AGAIN_MS);
  }
}

/**
 * Gives what a promise resolves to.
 *
 * @throws what it rejects with, or an error that names `what` when it takes longer
 */
export async function within<T>(what: string, promise: Promise<T>, ms = DEADLINE_MS): Promise<T> {
  const timer = new AbortController();
  const late = delay(ms, undefined, { signal: timer.signal }).then(
    () => {
      throw new Error(`not within ${ms} ms: ${what}`);
    },
    () => new Promise<never>(() => undefined),
  );
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer.abort();
  }
}

/** Looks again and again for so long; what the look throws ends it. For what must not happen. */
export async function throughout(ms: number, look: Look<unknown>): Promise<void> {
  const endsAt = performance.now() + ms;
  while (performance.now() < endsAt) {
    await look();
    await delay(Math.min(100, Math.max(1, endsAt - performance.now())));
  }
  await look();
}

/** Lets time pass: what a handler takes, or how long an outage lasts. Not for waiting until something is there. */
export async function lasting(ms: number): Promise<void> {
  await delay(ms);
}

/** A point in time up to `maxMs` from now, for races that have to be met at every point. */
export async function somewhereWithin(maxMs: number): Promise<void> {
  await delay(Math.random() * maxMs);
}
