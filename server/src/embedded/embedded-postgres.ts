import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { TrunklineError } from "../core/error.js";
import { chooseAccount, type Account } from "./account.js";
import { findBinaries, type Binaries } from "./binaries.js";
import { ensureCluster, readPassword, SUPERUSER } from "./cluster.js";
import { findFreePort, launchPostmaster, POLL_MS } from "./launch.js";
import { placeDataFolder } from "./places.js";
import { findPostmaster, type Postmaster } from "./postmaster.js";
import { isSameProcess } from "./process-info.js";
import { becomeStarter, findStarter, forgetStarter } from "./starter.js";

/** Crash recovery of a large folder takes its time; a start that needs longer than this has failed. */
const START_MS = 120_000;
/** A fast shutdown writes a checkpoint; after this long the server is told to drop everything. */
const FAST_STOP_MS = 30_000;
const IMMEDIATE_STOP_MS = 10_000;
const ANSWER_MS = 10_000;
/** Between two looks at a folder that is not ours yet; each may cost the start of a process. */
const LOOK_AGAIN_MS = 100;
const DEFAULT_CONNECTIONS = 200;

/** Options of {@link startEmbeddedPostgres}. */
export interface EmbeddedPostgresOptions {
  /** The data folder, made on first use, and its parents with it. */
  readonly dataDir: string;
  /** TCP port on 127.0.0.1. Default: a free one. A server that already runs keeps its own. */
  readonly port?: number;
  /** Told in a line each what is done; never sees the password. Default: nobody. */
  readonly log?: (line: string) => void;
  /**
   * Whether commits are flushed to disk. Default true; false is for tests, whose data may go with the
   * machine. A server that already runs keeps its own setting.
   */
  readonly durable?: boolean;
  /** Connections at most. Default 200. A server that already runs keeps its own setting. */
  readonly maxConnections?: number;
}

/** A running embedded PostgreSQL. */
export interface EmbeddedPostgres {
  /** Connection string of the superuser, with its password: not for logs. */
  readonly url: string;
  /** The postmaster's process id. */
  readonly pid: number;
  /**
   * Where its data is: the folder that was asked for, unless the account under which PostgreSQL runs cannot get there,
   * as happens to root's private folders. Who removes the one that was asked for removes this one too.
   */
  readonly dataDir: string;
  /** Whether it was running already: an orphan, or another live process's. */
  readonly reused: boolean;
  /**
   * Shuts it down and waits until it is gone. One that another live process started is left running, unless `force`
   * says that nobody needs it any more; and a later call does nothing.
   */
  stop(options?: { readonly force?: boolean }): Promise<void>;
}

interface Settled {
  readonly dataDir: string;
  readonly account: Account | undefined;
  readonly binaries: Binaries;
  readonly port: number | undefined;
  readonly durable: boolean;
  readonly maxConnections: number;
  readonly log: (line: string) => void;
  /** On `performance.now()`'s clock. */
  readonly deadlineMs: number;
}

/**
 * Starts the bundled PostgreSQL on a data folder, or reuses the one that is running there. Of two starts
 * at once one wins and the other reuses. The server outlives a crash of this process: the next start
 * adopts the orphan, and then stops it as its own.
 *
 * @throws TrunklineError UNAVAILABLE, with what to do, when it cannot be started.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const log = options.log ?? ((): void => undefined);
  try {
    const account = await chooseAccount(options.dataDir);
    const binaries = await findBinaries(account, log);
    const dataDir = await placeDataFolder(options.dataDir, account, log);
    const { port, durable = true, maxConnections = DEFAULT_CONNECTIONS } = options;
    await ensureCluster({ dataDir, binaries, account, durable, log });
    const deadlineMs = performance.now() + START_MS;
    const settings = { port, durable, maxConnections };
    return await startOrReuse({ dataDir, account, binaries, ...settings, log, deadlineMs });
  } catch (error) {
    if (error instanceof TrunklineError) throw error;
    throw unavailable(options.dataDir, error instanceof Error ? error.message : String(error), error);
  }
}

async function startOrReuse(start: Settled): Promise<EmbeddedPostgres> {
  while (performance.now() < start.deadlineMs) {
    const running = await findPostmaster(start.dataDir);
    if (running?.status === "ready") {
      const reused = await reuse(start, running);
      if (reused !== undefined) return reused;
    } else if (running === undefined) {
      const started = await launch(start);
      if (started !== undefined) return started;
    }
    await delay(LOOK_AGAIN_MS);
  }
  throw unavailable(start.dataDir, "the server that runs on it neither got ready nor ended in time");
}

/** Undefined: the server was ending. */
async function reuse(start: Settled, running: Postmaster): Promise<EmbeddedPostgres | undefined> {
  const { dataDir, log } = start;
  const { pid } = running.process;
  const url = await connectionString(dataDir, running);
  const problem = await waitForAnswer(url, running);
  if (problem !== undefined) {
    if ((await findPostmaster(dataDir))?.status !== "ready") return undefined;
    throw unavailable(dataDir, `process ${pid} runs on it but does not answer (${problem}): end it first`);
  }
  const starter = await findStarter(dataDir);
  let token: string | undefined;
  if (starter === undefined) {
    token = await becomeStarter(dataDir);
    log(`took over PostgreSQL (process ${pid}), which had been left running on ${dataDir}`);
  } else {
    log(`using PostgreSQL (process ${pid}), which process ${starter.pid} runs on ${dataDir}`);
  }
  if (start.port !== undefined && start.port !== running.port) {
    log(`it listens on port ${running.port}, not on ${start.port}`);
  }
  return makeHandle(start, running, { url, token, reused: true });
}

/** Undefined: another start was quicker, or the port was taken meanwhile; look again. */
async function launch(start: Settled): Promise<EmbeddedPostgres | undefined> {
  const { dataDir } = start;
  const port = start.port ?? (await findFreePort());
  const result = await launchPostmaster({ ...start, port });
  switch (result.outcome) {
    case "ready": {
      const token = await becomeStarter(dataDir);
      const url = await connectionString(dataDir, result.postmaster);
      start.log(`started PostgreSQL (process ${result.postmaster.process.pid}) on ${dataDir}, port ${port}`);
      return makeHandle(start, result.postmaster, { url, token, reused: false });
    }
    case "folder-taken":
      return undefined;
    case "port-taken":
      if (start.port === undefined) return undefined;
      throw unavailable(dataDir, `port ${port} is in use: name another one, or none`);
    case "failed":
      throw unavailable(dataDir, result.logTail);
  }
}

function makeHandle(
  start: Settled,
  postmaster: Postmaster,
  handle: { readonly url: string; readonly token: string | undefined; readonly reused: boolean },
): EmbeddedPostgres {
  let stopping: Promise<void> | undefined;
  return {
    url: handle.url,
    pid: postmaster.process.pid,
    dataDir: start.dataDir,
    reused: handle.reused,
    stop: ({ force = false } = {}) => (stopping ??= stop(start, postmaster, handle.token, force)),
  };
}

async function stop(
  start: Settled,
  postmaster: Postmaster,
  token: string | undefined,
  force: boolean,
): Promise<void> {
  const { dataDir, log } = start;
  const { pid } = postmaster.process;
  const starter = await findStarter(dataDir);
  if (!force && starter !== undefined && starter.token !== token) {
    log(`left PostgreSQL (process ${pid}) running for process ${starter.pid}`);
    return;
  }
  // SIGINT is PostgreSQL's fast shutdown, SIGQUIT its immediate one (recovery at the next start).
  const ended =
    (await signalAndWait(postmaster, "SIGINT", FAST_STOP_MS)) ||
    (await signalAndWait(postmaster, "SIGQUIT", IMMEDIATE_STOP_MS));
  if (!ended) throw unavailable(dataDir, `process ${pid} does not end: kill it`);
  await forgetStarter(dataDir);
  log(`stopped PostgreSQL (process ${pid})`);
}

async function signalAndWait(
  { process: info }: Postmaster,
  signal: NodeJS.Signals,
  waitMs: number,
): Promise<boolean> {
  const deadlineMs = performance.now() + waitMs;
  if (!(await isSameProcess(info))) return true;
  process.kill(info.pid, signal);
  while (await isSameProcess(info)) {
    if (performance.now() > deadlineMs) return false;
    await delay(POLL_MS);
  }
  return true;
}

async function connectionString(dataDir: string, { port }: Postmaster): Promise<string> {
  return `postgres://${SUPERUSER}:${await readPassword(dataDir)}@127.0.0.1:${port ?? 0}/postgres`;
}

/**
 * Connects once. That it takes the folder's password, and by SCRAM proves that it knows it, shows that
 * it is the server of this folder. Returns what is wrong, if anything.
 */
async function waitForAnswer(url: string, running: Postmaster): Promise<string | undefined> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: ANSWER_MS });
  // An error after connecting changes nothing; unheard, it would end the process.
  client.on("error", () => undefined);
  try {
    await client.connect();
    await client.end();
    return undefined;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return `port ${running.port}: ${message}`;
  }
}

function unavailable(dataDir: string, problem: string, cause?: unknown): TrunklineError {
  return new TrunklineError(
    "UNAVAILABLE",
    `embedded PostgreSQL on ${dataDir} could not be used: ${problem} (or set DATABASE_URL to a PostgreSQL server)`,
    cause === undefined ? {} : { cause },
  );
}
