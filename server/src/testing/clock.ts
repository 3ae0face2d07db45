import type { Duration } from "@trunkline/sdk";
import type { Server } from "../server.js";
import type { TestClock } from "../store/test-clock.js";
import { durationMs } from "./options.js";

/** The time by which everything of a test server is due: the real one, and what it was advanced by. */
export interface Clock {
  /** What time it is. */
  now(): Date;
  /**
   * Lets so much time pass at once. What becomes due in it happens in its order, each at its time, and has happened
   * when this resolves: timeouts, ends of backoffs and of runs' TTLs, claims of workers that have gone, tokens that
   * expire. Whoever is connected stays so, and running handlers keep their claims but where their attempt times out.
   * Attempts that come of it begin when all the time has passed, so that what they do does not depend on their speed.
   *
   * @throws TrunklineError INVALID_FIELD for what is no duration
   */
  advance(duration: Duration): Promise<void>;
}

/** What a {@link ServerClock} needs of its server. */
export interface ServerClockOptions {
  readonly heartbeatIntervalMs: number;
  readonly server: () => Pick<Server, "catchUp" | "holdClaims">;
}

/** So many due times are met one by one; those beyond them, in steps of at least a fiftieth of the whole. */
const EXACT_STEPS = 50;
const COARSE_STEPS = 50;
/** A session that says nothing for so many heartbeat intervals is not alive. */
const ALIVE_INTERVALS = 3;

/** The {@link Clock} of one server. */
export class ServerClock implements Clock {
  readonly #clock: TestClock;
  readonly #options: ServerClockOptions;
  #aheadMs = 0;
  /** What is done to the database's clock and its calls, one after the other. */
  #last: Promise<void> = Promise.resolve();

  constructor(clock: TestClock, options: ServerClockOptions) {
    this.#clock = clock;
    this.#options = options;
  }

  /** As {@link now}, in milliseconds since 1970. */
  get nowMs(): number {
    return Date.now() + this.#aheadMs;
  }

  now(): Date {
    return new Date(this.nowMs);
  }

  async advance(duration: Duration): Promise<void> {
    const wholeMs = durationMs(duration, "duration");
    await this.inTurn(() => this.#advance(wholeMs));
  }

  /** Does something when all that was asked for before is done: two that move the clock at once would mix. */
  inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#last.then(work);
    // Whoever asked for it is told.
    this.#last = done.catch(() => undefined);
    return done;
  }

  async #advance(wholeMs: number): Promise<void> {
    const server = this.#options.server();
    const release = server.holdClaims();
    try {
      await this.#pass(wholeMs, server);
    } finally {
      release();
    }
  }

  async #pass(wholeMs: number, { catchUp }: Pick<Server, "catchUp">): Promise<void> {
    let leftMs = wholeMs;
    for (let steps = 0; leftMs > 0; steps++) {
      // The least of all, so that a due time which somebody else is at work on is not waited for.
      const leastMs = steps < EXACT_STEPS ? 1 : Math.ceil(wholeMs / COARSE_STEPS);
      const aliveMs = ALIVE_INTERVALS * this.#options.heartbeatIntervalMs;
      const movedMs = await this.#clock.step(leftMs, leastMs, aliveMs);
      this.#aheadMs += movedMs;
      leftMs -= movedMs;
      await catchUp();
    }
  }
}
