/** What an aborted wait rejects with: the signal's reason, an `AbortError` unless the caller gave another. */
export function abortReason(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : new DOMException("the wait was aborted", "AbortError");
}

/** One listener for each signal: Node warns of a leak when many calls share one and each listens. */
const callbacks = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls back when the signal aborts, at once if it has.
 *
 * @returns what ends this
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) {
    callback();
    return () => undefined;
  }
  let own = callbacks.get(signal);
  if (own === undefined) {
    const made = (own = new Set());
    callbacks.set(signal, made);
    signal.addEventListener("abort", () => made.forEach((each) => each()), { once: true });
  }
  const all = own;
  // Of its own, so that the same function given twice is called twice.
  const entry = (): void => callback();
  all.add(entry);
  return () => void all.delete(entry);
}

/** Waits this long, or until one of the signals aborts; then it rejects with that signal's reason. */
export function pause(ms: number, ...signals: (AbortSignal | undefined)[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const forgets: (() => void)[] = [];
    const forget = (): void => forgets.forEach((each) => each());
    const timer = setTimeout(() => {
      forget();
      resolve();
    }, ms);
    for (const signal of signals) {
      if (signal === undefined) continue;
      const aborted = (): void => {
        clearTimeout(timer);
        forget();
        reject(abortReason(signal));
      };
      forgets.push(onAbort(signal, aborted));
    }
  });
}

/** What a promise comes to, unless the signal aborts before; then this rejects with the signal's reason. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => reject(abortReason(signal)));
    promise.then(resolve, reject).finally(forget);
  });
}
