import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { TrunklineError } from "../core/error.js";
import { bundledMajor } from "../embedded/binaries.js";
import { startEmbeddedPostgres } from "../embedded/embedded-postgres.js";
import { classifyError } from "../store/database.js";
import { TestDatabases, type OwnDatabase } from "../store/test-databases.js";

/** A database of a test's own, on a PostgreSQL that others may be using at the same time. */
export interface TestDatabase {
  readonly url: string;
  /** Removes the database, and stops its PostgreSQL where it was started for tests and nobody else uses it. */
  leave(): Promise<void>;
}

/** Test processes share a server; each of their databases takes about ten connections. */
const MAX_CONNECTIONS = 500;
/** Others may be stopping it, which takes them a moment. */
const ENTER_MS = 60_000;
const LOOK_AGAIN_MS = 20;

/**
 * Makes a database on a given server, as a role that may do so, and leaves nothing else there.
 *
 * @throws TrunklineError UNAVAILABLE when it cannot be reached
 */
export async function databaseOn(url: string): Promise<TestDatabase> {
  const databases = await TestDatabases.connect(url).catch((cause: unknown) => {
    // Without the URL, which may have a password.
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new TrunklineError("UNAVAILABLE", `postgresUrl: the PostgreSQL cannot be reached: ${why}`, {
      cause,
    });
  });
  return makeDatabase(
    () => databases.make(),
    () => databases.close(),
  );
}

/**
 * Makes a database on the embedded PostgreSQL of a data folder, which is started for the first and stopped by the last
 * of all processes that use it. What is slow, the folder and the migrated template, is made once and stays.
 *
 * @param dataDir Default: a folder in the user's cache, for this version of PostgreSQL.
 * @throws TrunklineError UNAVAILABLE when PostgreSQL cannot be started.
 */
export async function databaseInFolder(dataDir: string | undefined): Promise<TestDatabase> {
  const { databases, leave } = await enter(dataDir ?? (await defaultFolder()));
  return makeDatabase(() => databases.copy(), leave);
}

async function makeDatabase(
  make: () => Promise<OwnDatabase>,
  leave: () => Promise<void>,
): Promise<TestDatabase> {
  let database: OwnDatabase;
  try {
    database = await make();
  } catch (error) {
    await leave();
    throw error;
  }
  return {
    url: database.url,
    leave: async () => {
      try {
        await database.drop();
      } finally {
        await leave();
      }
    },
  };
}

async function defaultFolder(): Promise<string> {
  const { XDG_CACHE_HOME: cache = "" } = process.env;
  const folder = cache === "" ? join(homedir(), ".cache") : cache;
  return join(folder, "trunkline", `testing-pg${await bundledMajor()}`);
}

interface Entered {
  readonly databases: TestDatabases;
  readonly leave: () => Promise<void>;
}

async function enter(dataDir: string): Promise<Entered> {
  const deadline = performance.now() + ENTER_MS;
  for (;;) {
    const postgres = await startEmbeddedPostgres({
      dataDir,
      durable: false,
      maxConnections: MAX_CONNECTIONS,
    });
    const databases = await enterNow(postgres.url);
    if (databases !== undefined) {
      const leave = async (): Promise<void> => {
        // As long as it is connected nobody can enter, so that nobody loses their server.
        if (await databases.leave()) await postgres.stop({ force: true });
        await databases.close();
      };
      return { databases, leave };
    }
    if (performance.now() > deadline) {
      throw new TrunklineError(
        "UNAVAILABLE",
        `the PostgreSQL of tests in ${dataDir} is being stopped by another process, which does not get on: ` +
          `end process ${postgres.pid}`,
      );
    }
    await delay(LOOK_AGAIN_MS);
  }
}

/** Undefined: whoever used it last is stopping it. */
async function enterNow(url: string): Promise<TestDatabases | undefined> {
  let databases: TestDatabases | undefined;
  try {
    databases = await TestDatabases.connect(url);
    if (await databases.enter()) return databases;
  } catch (error) {
    await databases?.close();
    if (classifyError(error) === "lost") return undefined;
    throw error;
  }
  await databases.close();
  return undefined;
}
