import type { Access } from "../access/access.js";
import type { Exchange } from "../exchange/exchange.js";
import { aliveNodes } from "../store/sessions.js";
import { LONGEST_SLEEP_MS, sweepDue } from "./due.js";
import { storeKeyUses } from "./key-uses.js";
import { renewOrTell, sweepLeases } from "./leases.js";
import { Loop } from "./loop.js";
import { reconcile } from "./reconcile.js";
import { sweepRetention } from "./retention.js";

/** What the upkeep is given. */
export interface MaintenanceOptions {
  readonly exchange: Exchange;
  /** How long ended runs are kept; null keeps them for ever. */
  readonly retentionMs: number | null;
  readonly access: Access;
  readonly onError: (error: unknown) => void;
}

/** What another node queued is found within this where no hints arrive. */
const POLL_MS = 500;
/** Where hints arrive one can still be lost, as when the node that sends it dies: the call is found within this. */
const SAFETY_POLL_MS = 5_000;
/** What another node ended is found within this, when no hint came. */
const CATCH_UP_MS = 2_000;
/** A lone node tells its waiters everything itself, but where a commit's reply was lost. */
const LONE_CATCH_UP_MS = 10_000;
/** What another node did to a run is found within this by those who watch it. */
const WATCH_MS = 1_000;
const RETENTION_MS = 60_000;
/** When keys were used last is kept to the minute. */
const KEY_USES_MS = 60_000;
/** Between two tries to reach a database that is away. */
const RENEWAL_RETRY_MS = 500;

/** All upkeep of a node. Each loop is safe to run on any number of nodes at once. */
export class Maintenance {
  readonly #exchange: Exchange;
  readonly #loops: readonly Loop[];
  readonly #due: Loop;
  readonly #renewal: Loop;
  /** What would be lost with the node. */
  readonly #lastWork: () => Promise<void>;

  constructor({ exchange, retentionMs, access, onError }: MaintenanceOptions) {
    const { availability, heartbeatIntervalMs: intervalMs } = exchange;
    this.#exchange = exchange;
    this.#lastWork = async () => {
      if (!availability.isDown) await storeKeyUses(exchange, access).catch(onError);
    };
    /** While there is no database only the renewal, which finds out, tries to reach it. */
    const loop = (everyMs: number, work: () => Promise<number | undefined>): Loop =>
      new Loop({ everyMs, onError, work: async () => (availability.isDown ? undefined : work()) });
    this.#due = loop(LONGEST_SLEEP_MS, () => sweepDue(exchange));
    exchange.onDue((inMs) => this.#due.wakeIn(inMs));
    this.#renewal = new Loop({
      everyMs: intervalMs,
      retryMs: Math.min(intervalMs, RENEWAL_RETRY_MS),
      onError,
      work: () => nothing(renewOrTell(exchange).then((version) => access.heard(version))),
    });
    this.#loops = [
      this.#due,
      this.#renewal,
      loop(intervalMs, () => nothing(reconcile(exchange))),
      loop(Math.min(intervalMs, 1_000), async () => {
        if (availability.steadyMs < intervalMs) return undefined;
        return (await sweepLeases(exchange)) ? 0 : undefined;
      }),
      // One round before the time is up, since the next would be late.
      loop(POLL_MS, () =>
        nothing(exchange.dispatch.poll(exchange.hearsHints() ? SAFETY_POLL_MS - POLL_MS : 0)),
      ),
      loop(CATCH_UP_MS, catchingUp(exchange)),
      loop(WATCH_MS, async () => {
        exchange.watchers.poll(exchange.hints.othersAlive);
        return undefined;
      }),
      loop(KEY_USES_MS, () => nothing(storeKeyUses(exchange, access))),
      loop(RETENTION_MS, async () => ((await sweepRetention(exchange, retentionMs)) ? 0 : undefined)),
    ];
  }

  start(): void {
    for (const loop of this.#loops) loop.start();
  }

  /**
   * Does what is due by now, rather than in the rounds to come: for whoever moved the database's clock. Leases come
   * first, as they would have ended first, and at once: what was heard of their workers was moved along.
   */
  async catchUp(): Promise<void> {
    await this.#renewal.runNow();
    while (await sweepLeases(this.#exchange));
    while ((await this.#due.runNow()) === 0);
  }

  /** Resolves when nothing of it runs any more. */
  async stop(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()));
    await this.#lastWork();
    await this.#exchange.runEndings.stop();
  }
}

/**
 * Finds what ended without this node's doing, seldom while it is alone. A node that starts says so: only where that
 * is not heard the others are counted each time, and not by the renewal alone.
 */
function catchingUp(exchange: Exchange): () => Promise<undefined> {
  const { upkeep, heartbeatIntervalMs, hints, waiters } = exchange;
  let caughtUpAt = performance.now();
  return async () => {
    if (!exchange.hearsHints()) hints.othersAlive = (await aliveNodes(upkeep, heartbeatIntervalMs)) > 1;
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
