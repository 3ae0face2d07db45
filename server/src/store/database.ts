import pg from "pg";
import { ServerPool } from "./server-pool.js";
import { statement, type Statement } from "./statement.js";

export { classifyError, type ErrorClass } from "./database-error.js";
export type { Statement } from "./statement.js";

/** A PostgreSQL database, or one transaction on it. */
export interface Database {
  /** Runs one statement, in a transaction of its own outside {@link transaction}. `R` is what its rows are. */
  query<R>(statement: Statement, values: readonly unknown[]): Promise<R[]>;
  /** Runs several statements in one transaction: committed when `work` resolves, else rolled back. */
  transaction<T>(work: (tx: Database) => Promise<T>): Promise<T>;
  /** Waits for what runs, then closes all connections. */
  close(): Promise<void>;
}

/** How to reach a database. */
export interface DatabaseOptions {
  /** `postgres://user@host:port/name`; several hosts, divided by commas: the first that takes writes. */
  readonly url: string;
  readonly maxConnections: number;
  /**
   * For poolers in transaction mode: nothing is prepared by name, and no setting is made when a connection
   * starts. Default false.
   */
  readonly unnamed?: boolean;
  /** Told of errors of idle connections; the pool has replaced them already. */
  readonly onError: (error: unknown) => void;
  /** A statement that takes longer fails, and its connection is given up. Default 15 s. */
  readonly queryTimeoutMs?: number;
  /** What `pg_stat_activity` shows. Default `trunkline`. */
  readonly applicationName?: string;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** Far above any statement here: only a connection that has silently died takes so long. */
const QUERY_TIMEOUT_MS = 15_000;
/** The locks of a node that vanished in the middle of a transaction are held no longer. */
const IDLE_IN_TRANSACTION_MS = 3_000;
const KEEP_ALIVE_MS = 10_000;

/**
 * Settings of every connection, sent with its start-up message. A prepared statement keeps a plan that may
 * have been made while a table was empty, when reading all of it looks best; without those plans what is
 * left are index look-ups, which is what every statement here wants. So one plan serves for all, where
 * PostgreSQL would plan again for each batch.
 */
const SETTINGS = [
  "-c TimeZone=UTC",
  "-c DateStyle=ISO",
  "-c jit=off",
  "-c enable_seqscan=off",
  "-c enable_hashjoin=off",
  "-c enable_mergejoin=off",
  "-c plan_cache_mode=force_generic_plan",
].join(" ");

/** A database with the connections to it. */
export interface ConnectedDatabase extends Database {
  /** Ends all connections and what runs on them: for when none of them answers any more. */
  reset(): void;
}

/** Connects on first use. Nothing is thrown here: the first query tells. */
export function openDatabase(options: DatabaseOptions): ConnectedDatabase {
  return new PoolDatabase(options);
}

class PoolDatabase implements ConnectedDatabase {
  readonly #named: boolean;
  readonly #pool: ServerPool;

  constructor(options: DatabaseOptions) {
    const { url, maxConnections, onError } = options;
    this.#named = options.unnamed !== true;
    this.#pool = new ServerPool({
      url,
      maxConnections,
      onError,
      makePool: (server) => makePool(server, options),
    });
  }

  query<R>(statement: Statement, values: readonly unknown[]): Promise<R[]> {
    return this.#pool.use((client) => this.#run<R>(client, statement, values));
  }

  transaction<T>(work: (tx: Database) => Promise<T>): Promise<T> {
    return this.#pool.use(async (client, spoil) => {
      const tx: Database = {
        query: (statement, values) => this.#run(client, statement, values),
        transaction: (inner) => inner(tx),
        close: async () => {},
      };
      await client.query("BEGIN");
      let result: T;
      try {
        result = await work(tx);
      } catch (error) {
        // A connection that cannot even roll back is not used again; the first error is the one that tells.
        await client.query("ROLLBACK").catch(spoil);
        throw error;
      }
      await client.query("COMMIT");
      return result;
    });
  }

  reset(): void {
    this.#pool.reset();
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  async #run<R>(client: pg.PoolClient, { name, text }: Statement, values: readonly unknown[]): Promise<R[]> {
    const named = this.#named ? { name } : {};
    const { rows } = await client.query<pg.QueryResultRow>({ ...named, text, values: [...values] });
    // The statement's text says what its rows are; the driver cannot know.
    return rows as R[];
  }
}

function makePool(server: string, options: DatabaseOptions): pg.Pool {
  const pooled = options.unnamed === true;
  const pool = new pg.Pool({
    connectionString: pooled ? server : withSettings(server),
    max: options.maxConnections,
    application_name: options.applicationName ?? "trunkline",
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: options.queryTimeoutMs ?? QUERY_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    types: makeTypes(),
    ...(pooled ? {} : { options: SETTINGS, idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS }),
  });
  pool.on("error", options.onError);
  // A connection in use reports its end by its query; without a listener the event would end the process.
  pool.on("connect", (client) => client.on("error", () => {}));
  return pool;
}

/** Our settings before those of the connection string, which would replace them as a whole. */
function withSettings(server: string): string {
  if (!server.includes("options=")) return server;
  const url = new URL(server);
  url.searchParams.set("options", `${SETTINGS} ${url.searchParams.get("options") ?? ""}`);
  return url.href;
}

/** `bigint` as a number, since all of ours are safe integers; `json` as the text that it is. */
function makeTypes(): pg.CustomTypesConfig {
  const types = new pg.TypeOverrides();
  types.setTypeParser(pg.types.builtins.INT8, Number);
  types.setTypeParser(pg.types.builtins.JSON, (text) => text);
  return types;
}

const DURABILITY = statement(
  "durability",
  "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes')",
);

const DURABILITY_RISKS: Readonly<Record<string, string>> = {
  fsync: "what was acknowledged is lost when the machine fails, and the database may be damaged",
  full_page_writes: "the database may be damaged when the machine fails",
  synchronous_commit: "what was acknowledged in the last moments is lost when PostgreSQL fails",
};

/** Warnings for settings of the server under which acknowledged work can be lost; none is the good case. */
export async function checkDurability(db: Database): Promise<string[]> {
  const rows = await db.query<{ name: string; setting: string }>(DURABILITY, []);
  return rows
    .filter(({ setting }) => setting === "off")
    .map(
      ({ name }) => `PostgreSQL runs with ${name} = off: ${DURABILITY_RISKS[name] ?? "it is not durable"}`,
    );
}
