import type { Exchange } from "../exchange/exchange.js";
import { aliveNodes } from "../store/sessions.js";
import { LONGEST_SLEEP_MS, sweepDue } from "./due.js";
import { renew, sweepLeases } from "./leases.js";
import { Loop } from "./loop.js";
import { reconcile } from "./reconcile.js";
import { sweepRetention } from "./retention.js";

/** What the upkeep is given. */
export interface MaintenanceOptions {
  readonly exchange: Exchange;
  /** How long ended runs are kept; null keeps them for ever. */
  readonly retentionMs: number | null;
  readonly onError: (error: unknown) => void;
}

/** What another node queued or ended is found within this, when no hint came. */
const POLL_MS = 500;
const CATCH_UP_MS = 2_000;
/** A lone node tells its waiters everything itself, but where a commit's reply was lost. */
const LONE_CATCH_UP_MS = 10_000;
const RETENTION_MS = 60_000;

/** All upkeep of a node. Each loop is safe to run on any number of nodes at once. */
export class Maintenance {
  readonly #loops: readonly Loop[];

  constructor({ exchange, retentionMs, onError }: MaintenanceOptions) {
    const intervalMs = exchange.heartbeatIntervalMs;
    const due = new Loop({ everyMs: LONGEST_SLEEP_MS, onError, work: () => sweepDue(exchange) });
    exchange.onDue((inMs) => {
      due.wakeIn(inMs);
    });
    const loops = [
      due,
      new Loop({ everyMs: intervalMs, onError, work: () => nothing(renew(exchange)) }),
      new Loop({ everyMs: intervalMs, onError, work: () => nothing(reconcile(exchange)) }),
      new Loop({
        everyMs: Math.min(intervalMs, 1_000),
        onError,
        work: async () => ((await sweepLeases(exchange)) ? 0 : undefined),
      }),
      new Loop({ everyMs: POLL_MS, onError, work: () => nothing(exchange.dispatch.poll()) }),
      new Loop({ everyMs: CATCH_UP_MS, onError, work: catchingUp(exchange) }),
    ];
    if (retentionMs !== null) {
      const work = async (): Promise<number | undefined> =>
        (await sweepRetention(exchange, retentionMs)) ? 0 : undefined;
      loops.push(new Loop({ everyMs: RETENTION_MS, onError, work }));
    }
    this.#loops = loops;
  }

  start(): void {
    for (const loop of this.#loops) loop.start();
  }

  /** Resolves when nothing of it runs any more. */
  async stop(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()));
  }
}

/** Finds what ended without this node's doing, seldom while it is alone; and whether hints have readers. */
function catchingUp(exchange: Exchange): () => Promise<undefined> {
  const { db, heartbeatIntervalMs, hints, waiters } = exchange;
  let caughtUpAt = performance.now();
  return async () => {
    hints.othersAlive = (await aliveNodes(db, heartbeatIntervalMs)) > 1;
    const now = performance.now();
    const isTime = hints.othersAlive || now - caughtUpAt >= LONE_CATCH_UP_MS;
    if (waiters.size === 0 || !isTime) return;
    caughtUpAt = now;
    await waiters.lookAt(null);
  };
}

async function nothing(work: Promise<void>): Promise<undefined> {
  await work;
}
