import type pg from "pg";
import { TrunklineError } from "../core/error.js";
import { classifyError } from "./database-error.js";
import { findPrimary, listServers } from "./servers.js";

/** How a {@link ServerPool} connects. */
export interface ServerPoolOptions {
  readonly url: string;
  readonly maxConnections: number;
  /** Makes the driver's pool for one server; it is never asked for more than `maxConnections` at once. */
  readonly makePool: (server: string) => pg.Pool;
  /** Told of what goes wrong with connections that nobody uses. */
  readonly onError: (error: unknown) => void;
}

/** Work on one connection; `spoil` says that the connection is not to be used again. */
export type ClientWork<T> = (client: pg.PoolClient, spoil: () => void) => Promise<T>;

interface Turn {
  readonly go: () => void;
  readonly fail: (error: Error) => void;
}

/** What runs when the pool is closed may take so long to end. */
const CLOSE_MS = 2_000;

/**
 * Connections to the server that takes writes. Whoever wants one waits for its turn here, and not in the
 * driver's pool, which would give up on those who wait for long as if the database had gone.
 */
export class ServerPool {
  readonly #options: ServerPoolOptions;
  readonly #several: boolean;
  readonly #busy = new Set<pg.PoolClient>();
  #waiting: Turn[] = [];
  #free: number;
  #pool: Promise<pg.Pool> | undefined;
  #closed = false;

  constructor(options: ServerPoolOptions) {
    this.#options = options;
    this.#several = listServers(options.url).length > 1;
    this.#free = options.maxConnections;
  }

  /** Works with one connection, once there is one. Whoever has one must not ask for a second. */
  async use<T>(work: ClientWork<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((go, fail) => this.#waiting.push({ go, fail }));
    try {
      return await this.#work(work);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next.go();
    }
  }

  /** Ends all connections: what runs on them fails, and so does what waits for one. The next use connects anew. */
  reset(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { fail } of waiting) fail(terminated());
    this.#endBusy();
    this.#leave(this.#pool);
  }

  /** Waits a moment for what runs, then closes all connections. Nothing new begins. */
  async close(): Promise<void> {
    this.#closed = true;
    const pool = await this.#pool?.catch(() => undefined);
    this.#pool = undefined;
    const timer = setTimeout(() => this.#endBusy(), CLOSE_MS);
    await pool?.end();
    clearTimeout(timer);
  }

  async #work<T>(work: ClientWork<T>): Promise<T> {
    const current = this.#connect();
    let client: pg.PoolClient | undefined;
    let spoiled = false;
    try {
      client = await (await current).connect();
      this.#busy.add(client);
      return await work(client, () => {
        spoiled = true;
      });
    } catch (error) {
      if (classifyError(error) === "lost") {
        spoiled = true;
        // Another server may take writes now: the next use looks for it.
        if (this.#several) this.#leave(current);
      }
      throw error;
    } finally {
      if (client !== undefined) {
        this.#busy.delete(client);
        client.release(spoiled);
      }
    }
  }

  #connect(): Promise<pg.Pool> {
    if (this.#closed) {
      return Promise.reject(new TrunklineError("UNAVAILABLE", "the database has been closed"));
    }
    if (this.#pool !== undefined) return this.#pool;
    const pool = findPrimary(this.#options.url).then((server) => this.#options.makePool(server));
    this.#pool = pool;
    pool.catch(() => {
      if (this.#pool === pool) this.#pool = undefined;
    });
    return pool;
  }

  /** Uses a pool no more. Whoever fails on an older one must not take the newer one away. */
  #leave(pool: Promise<pg.Pool> | undefined): void {
    if (pool === undefined || this.#pool !== pool || this.#closed) return;
    this.#pool = undefined;
    // Where there was no server to be found, somebody else is told.
    pool.then((old) => old.end().catch(this.#options.onError)).catch(() => {});
  }

  /** The driver cuts a connection that has a statement under way, without waiting for its end. */
  #endBusy(): void {
    for (const client of this.#busy) client.end().catch(this.#options.onError);
  }
}

function terminated(): Error {
  return new Error("Connection terminated: the database cannot be reached");
}
