import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { startEmbeddedPostgres } from "trunkline";

/** How long a server may be away until whoever looks at it gives up. */
const AWAY_MS = 30_000;
const QUERY_MS = 60_000;

/** @typedef {Awaited<ReturnType<typeof startEmbeddedPostgres>>} Running */

/**
 * The database server of a fault run: one of its own, or that of `DATABASE_URL`, which is left in peace but for
 * its connections.
 */
export class Postgres {
  #dataDir;
  #port;
  /** @type {Running | undefined} */
  #running;
  /** What is done to it, one after the other. @type {Promise<unknown>} */
  #last = Promise.resolve();
  /** @type {number[]} */
  #paused = [];

  /**
   * @param {string} url
   * @param {{ dataDir: string, port: number, running: Running } | undefined} own
   */
  constructor(url, own) {
    this.url = url;
    this.#dataDir = own?.dataDir;
    this.#port = own?.port;
    this.#running = own?.running;
  }

  /**
   * @param {string} folder
   * @param {string | undefined} givenUrl
   */
  static async start(folder, givenUrl) {
    if (givenUrl !== undefined) return new Postgres(givenUrl, undefined);
    const dataDir = join(folder, "postgres");
    await mkdir(folder, { recursive: true });
    const port = await freePort();
    // What was acknowledged must be on disk: an immediate stop loses what is not.
    const running = await startEmbeddedPostgres({ dataDir, port, durable: true });
    return new Postgres(running.url, { dataDir, port, running });
  }

  /** Whether it may be stopped. */
  get isOwn() {
    return this.#dataDir !== undefined;
  }

  /** Where it listens. */
  get port() {
    return Number(new URL(this.url).port || 5432);
  }

  /**
   * The same server and database, reached through another port of this machine.
   *
   * @param {number} port
   * @param {string} database
   */
  through(port, database) {
    const url = new URL(this.url);
    url.hostname = "127.0.0.1";
    url.port = String(port);
    url.pathname = `/${database}`;
    return url.href;
  }

  /**
   * Stops it and starts it again.
   *
   * @param {"SIGINT" | "SIGQUIT" | "SIGKILL"} signal A fast stop, an immediate one, a kill.
   * @param {number} downMs How long it is away.
   */
  restart(signal, downMs) {
    return this.#next(async () => {
      this.#resume();
      await this.#end(signal);
      await delay(downMs);
      await this.#start();
    });
  }

  /**
   * Stops all its processes in their tracks, and lets them go on.
   *
   * @param {number} ms
   */
  freeze(ms) {
    return this.#next(async () => {
      const pid = this.#running?.pid;
      if (pid === undefined) return;
      this.#paused = [pid, ...(await childrenOf(pid))];
      signalAll(this.#paused, "SIGSTOP");
      await delay(ms);
      this.#resume();
    });
  }

  /** Resolves when whatever is being done to it is over and it runs. */
  async settled() {
    await this.#last;
  }

  /** Ends it for good; one that is not its own goes on. */
  async stop() {
    this.#resume();
    await this.#last.catch(() => undefined);
    await this.#running?.stop();
  }

  /** @param {() => Promise<void>} work */
  #next(work) {
    if (!this.isOwn) return Promise.resolve();
    const next = this.#last.then(work);
    this.#last = next;
    return next;
  }

  #resume() {
    signalAll(this.#paused, "SIGCONT");
    this.#paused = [];
  }

  /** @param {NodeJS.Signals} signal */
  async #end(signal) {
    const pid = this.#running?.pid;
    if (pid === undefined) return;
    signalAll([pid], signal);
    while (isAlive(pid)) await delay(10);
    this.#running = undefined;
  }

  async #start() {
    if (this.#dataDir === undefined || this.#port === undefined) return;
    this.#running = await startEmbeddedPostgres({ dataDir: this.#dataDir, port: this.#port, durable: true });
  }
}

/** A database of a fault run's own, with a connection for looking at it. */
export class Database {
  #url;
  /** @type {pg.Client | undefined} */
  #client;

  /** @param {string} url */
  constructor(url) {
    this.#url = url;
  }

  /**
   * Runs a statement, again where the server was away.
   *
   * @param {string} text
   * @param {readonly unknown[]} [values]
   * @returns {Promise<any[]>} As the statement says.
   */
  async query(text, values = []) {
    const giveUpAt = performance.now() + AWAY_MS;
    for (;;) {
      try {
        const client = (this.#client ??= await this.#connect());
        return (await client.query(text, [...values])).rows;
      } catch (error) {
        await this.close();
        if (!isAway(error) || performance.now() > giveUpAt) throw error;
        await delay(200);
      }
    }
  }

  async #connect() {
    const client = new pg.Client({ connectionString: this.#url, query_timeout: QUERY_MS });
    // The next statement tells.
    client.on("error", () => undefined);
    await client.connect();
    return client;
  }

  async close() {
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => undefined);
  }
}

/**
 * Whether an error is one of the connection, or of a server that stops or starts.
 *
 * @param {unknown} error
 */
function isAway(error) {
  if (!(error instanceof pg.DatabaseError)) return true;
  return /^(08|57P0)/.test(error.code ?? "");
}

/** Below those that systems hand out by themselves, so that nobody is given one while its owner is away. */
const LEAST_PORT = 10_000;
const MOST_PORT = 32_000;

/**
 * A port that nobody listens on at the moment.
 *
 * @returns {Promise<number>}
 */
export async function freePort() {
  for (;;) {
    const port = randomInt(LEAST_PORT, MOST_PORT);
    const server = createServer().listen(port, "127.0.0.1");
    try {
      await once(server, "listening");
    } catch {
      // Somebody has it.
      continue;
    }
    server.close();
    await once(server, "close");
    return port;
  }
}

/** @param {number} ms */
const delay = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * @param {readonly number[]} pids
 * @param {NodeJS.Signals} signal
 */
function signalAll(pids, signal) {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      // It has ended.
    }
  }
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/**
 * The processes that a process has started.
 *
 * @param {number} pid
 */
export async function childrenOf(pid) {
  try {
    const { stdout } = await promisify(execFile)("ps", ["-o", "pid=", "--ppid", String(pid)]);
    return stdout.split(/\s+/).filter(Boolean).map(Number);
  } catch {
    return [];
  }
}
