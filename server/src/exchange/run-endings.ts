/** Cancels a run's open calls, until it is done or `isStopped` says so. */
export type EndRunWork = (isStopped: () => boolean) => Promise<void>;

/**
 * The cancellations of ended runs' calls that are under way on this node: one for each run, however many ask for it.
 * A run may have hundreds of thousands of calls, so whoever waits does so for a while only, and the work goes on.
 */
export class RunEndings {
  readonly #running = new Map<string, Promise<void>>();
  #stopped = false;

  /** Joins the work that is under way for a run, or starts it. */
  join(runId: string, work: EndRunWork): Promise<void> {
    let running = this.#running.get(runId);
    if (running === undefined) {
      running = work(() => this.#stopped).finally(() => this.#running.delete(runId));
      this.#running.set(runId, running);
    }
    return running;
  }

  /** Ends all work after the calls that it has in hand; what is left is done by the next sweep of any node. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.allSettled(this.#running.values());
  }
}

/** Waits for work that goes on by itself, but at most so long. What fails later is found by the next sweep. */
export async function waitAtMost(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  try {
    await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
}
