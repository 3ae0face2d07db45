/** Signals that ask a process to end: Ctrl-C, a supervisor's, and a terminal that was closed. */
const STOP_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

const STATUS_OF: Readonly<Record<(typeof STOP_SIGNALS)[number], number>> = {
  SIGINT: 130,
  SIGTERM: 143,
  SIGHUP: 129,
};

/**
 * `npm` and `npx` hand a Ctrl-C on to their child, which the terminal has sent it already: what comes this
 * soon after the first is the same one.
 */
const SAME_MS = 300;

/** A request to stop that came from outside. */
export interface StopSignals {
  /** Resolves at the first signal. */
  readonly first: Promise<void>;
  /** Leaves signals to Node again, which ends the process. */
  dispose(): void;
}

/** How signals are listened for. */
export interface StopSignalOptions {
  /** Called just before the second signal ends the process. */
  readonly onSecond?: () => void;
  /** Takes SIGHUP for something else than a request to stop, as services do. */
  readonly onHangUp?: () => void;
}

/**
 * Listens for signals that ask this process to end: the first one is announced, so that what runs can be
 * put down in order; a second one ends the process at once.
 */
export function listenForStop({ onSecond, onHangUp }: StopSignalOptions = {}): StopSignals {
  let seenAtMs: number | undefined;
  let announce = (): void => undefined;
  const first = new Promise<void>((resolve) => {
    announce = resolve;
  });
  const hear = (signal: (typeof STOP_SIGNALS)[number]): void => {
    if (signal === "SIGHUP" && onHangUp !== undefined) {
      onHangUp();
    } else if (seenAtMs === undefined) {
      seenAtMs = performance.now();
      announce();
    } else if (performance.now() - seenAtMs > SAME_MS) {
      onSecond?.();
      process.exit(STATUS_OF[signal]);
    }
  };
  for (const signal of STOP_SIGNALS) process.on(signal, hear);
  return {
    first,
    dispose: () => {
      for (const signal of STOP_SIGNALS) process.off(signal, hear);
    },
  };
}
