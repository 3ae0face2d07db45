import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { formatDuration, Trunkline, type Call, type CallState, type Duration } from "@trunkline/sdk";
import { TrunklineError } from "../core/error.js";
import { waitAtMost } from "../exchange/run-endings.js";
import { createLog, type LogLevel } from "../log.js";
import { startServer, type Server } from "../server.js";
import { TestClock } from "../store/test-clock.js";
import { ServerClock, type Clock } from "./clock.js";
import { durationMs, heartbeatMs, onlyOptions } from "./options.js";
import { databaseInFolder, databaseOn, type TestDatabase } from "./test-postgres.js";

/** How a test server differs from the usual one. */
export interface TestServerOptions {
  /**
   * The folder of the embedded PostgreSQL, which test processes share and later runs use again. Default:
   * `~/.cache/trunkline/testing-pg18`, after the version of PostgreSQL; `XDG_CACHE_HOME` is heeded.
   */
  readonly dataDir?: string;
  /**
   * A PostgreSQL to use instead, by the URL of a role that may make databases: where the embedded one does not run.
   * The test's database is made beside the others and removed by `stop`.
   */
  readonly postgresUrl?: string;
  /** Asks everybody for a key; `client` has the root key, which is in `key`. Default false: serves everybody. */
  readonly keys?: boolean;
  /** How often workers send heartbeats, 10 ms to 20 s. Default 5 s, as in production. */
  readonly heartbeatInterval?: Duration;
  /** What goes to standard error. Default `silent`. */
  readonly logLevel?: LogLevel;
}

/** Which call is waited for; what is not set does not matter. */
export interface CallWanted {
  readonly state?: CallState;
  readonly tool?: string;
  readonly run?: string;
  /** The number of its last claim: 1 while the first attempt runs or is over, 0 before it. */
  readonly attempt?: number;
  /** How long to wait for it, by the real clock. Default 10 s. */
  readonly within?: Duration;
}

/** A server in this process, with a database of its own. */
export interface TestServer {
  /** Where it serves, such as `http://127.0.0.1:40123`. */
  readonly url: string;
  /** The root key; undefined without `keys`. */
  readonly key: string | undefined;
  /** A client that may do everything; workers of tests can be made with it too. `stop` closes it. */
  readonly client: Trunkline;
  readonly clock: Clock;
  /**
   * Waits until a call is as wanted, and gives it, the newest where there are several: a test that moves the clock has
   * to know what it moves it for.
   *
   * @throws TrunklineError UNAVAILABLE when there is none in time; it says which calls there are
   */
  untilCall(wanted: CallWanted): Promise<Call>;
  /**
   * Cancels what is open and removes all calls and runs. Workers stay connected; toolsets, keys and the time stay as
   * they are. For between two tests.
   */
  reset(): Promise<void>;
  /** Ends it, with its database and, if nobody else uses it, its PostgreSQL. Again changes nothing. */
  stop(): Promise<void>;
  /** As `stop`, at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void>;
}

const OPTIONS: Record<keyof TestServerOptions, true> = {
  dataDir: true,
  postgresUrl: true,
  keys: true,
  heartbeatInterval: true,
  logLevel: true,
};

const DEFAULT_HEARTBEAT = "5s";
const DEFAULT_WITHIN = "10s";
const LOOK_AGAIN_MS = 5;
/** The server's tests share a PostgreSQL with others. */
const MAX_CONNECTIONS = 4;
/** Handlers that do not heed their signal, and clients that were not closed, hold the end up for no longer. */
const STOP_MS = 500;
const SHOWN_CALLS = 10;

/**
 * Starts a server for tests. Nothing of it is global: any number may run at once, in one process or in several.
 *
 * @throws TrunklineError UNAVAILABLE when PostgreSQL cannot be started or reached; INVALID_FIELD for options that cannot
 *   be, before anything is started
 */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  onlyOptions(options, OPTIONS);
  const { postgresUrl, dataDir, heartbeatInterval = DEFAULT_HEARTBEAT } = options;
  const heartbeatIntervalMs = heartbeatMs(heartbeatInterval);
  const database = await (postgresUrl === undefined ? databaseInFolder(dataDir) : databaseOn(postgresUrl));
  let clock: TestClock | undefined;
  try {
    clock = await TestClock.connect(database.url);
    return await serve(options, { database, clock, heartbeatIntervalMs });
  } catch (error) {
    await clock?.close();
    await database.leave();
    throw error;
  }
}

interface Ground {
  readonly database: TestDatabase;
  readonly clock: TestClock;
  readonly heartbeatIntervalMs: number;
}

async function serve(options: TestServerOptions, ground: Ground): Promise<TestServer> {
  const { keys = false, logLevel = "silent" } = options;
  const { database, clock, heartbeatIntervalMs } = ground;
  const key = keys ? `tl_test_${randomBytes(16).toString("hex")}` : undefined;
  const time = new ServerClock(clock, { heartbeatIntervalMs, server: () => server });
  const server: Server = await startServer({
    databaseUrl: database.url,
    port: 0,
    rootKey: key ?? null,
    insecure: !keys,
    heartbeatIntervalMs,
    maxConnections: MAX_CONNECTIONS,
    now: () => time.nowMs,
    log: createLog(logLevel),
  });
  const client = new Trunkline({
    url: server.url,
    // Not that of the environment, which is another server's.
    key: key ?? "none",
    onWarning: () => undefined,
  });
  const endRuns = async (): Promise<void> => {
    await clock.endRuns();
    await server.catchUp();
  };
  let ended: Promise<void> | undefined;
  const stop = (): Promise<void> =>
    (ended ??= inOrder([
      endRuns,
      () => waitAtMost(STOP_MS, client.close()),
      () => server.stop({ graceMs: STOP_MS }),
      () => clock.close(),
      () => database.leave(),
    ]));
  return {
    url: server.url,
    key,
    client,
    clock: time,
    untilCall: (wanted) => untilCall(client, wanted),
    reset: () =>
      time.inTurn(async () => {
        await endRuns();
        await clock.clear();
      }),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** Each step is done, whatever became of those before it; the first fault is thrown. */
async function inOrder(steps: readonly (() => Promise<unknown>)[]): Promise<void> {
  const faults: unknown[] = [];
  for (const step of steps) await step().catch((fault: unknown) => faults.push(fault));
  if (faults.length > 0) throw faults[0];
}

async function untilCall(client: Trunkline, wanted: CallWanted): Promise<Call> {
  const { attempt, within = DEFAULT_WITHIN, ...filter } = wanted;
  const deadline = performance.now() + durationMs(within, "within");
  for (;;) {
    for await (const call of await client.calls.list(filter)) {
      if (attempt === undefined || call.attempt === attempt) return call;
    }
    if (performance.now() > deadline) throw await notSeen(client, wanted);
    await delay(LOOK_AGAIN_MS);
  }
}

async function notSeen(
  client: Trunkline,
  { within = DEFAULT_WITHIN, ...wanted }: CallWanted,
): Promise<TrunklineError> {
  const { items } = await client.calls.list({ pageSize: SHOWN_CALLS });
  const calls = items.map(({ id, tool, state, attempt }) => `${id} of ${tool}: ${state}, attempt ${attempt}`);
  return new TrunklineError(
    "UNAVAILABLE",
    `no call was seen with ${JSON.stringify(wanted)} within ${formatDuration(durationMs(within, "within"))}; ` +
      (calls.length === 0 ? "there is none at all" : `there are, the newest first: ${calls.join("; ")}`),
  );
}
