import { randomUUID } from "node:crypto";
import { Access } from "./access/access.js";
import { AccessBook } from "./access/access-book.js";
import type { QuotaLimits } from "./core/quota.js";
import { Quotas } from "./access/quotas.js";
import { TrunklineError } from "./core/error.js";
import { loggedError } from "./core/logged-error.js";
import { Exchange } from "./exchange/exchange.js";
import { errorLogger, type Log } from "./log.js";
import { Maintenance } from "./maintenance/maintenance.js";
import { withCors } from "./service/cors.js";
import { serviceDeps } from "./service/deps.js";
import { listen } from "./service/listener.js";
import type { TlsFiles } from "./service/listener-tls.js";
import { serviceHandler } from "./service/routes.js";
import { checkDurability, classifyError, openDatabase, type ConnectedDatabase } from "./store/database.js";
import { migrate } from "./store/migrate.js";
import { HintListener } from "./store/notify.js";
import { registerNode, removeNode } from "./store/sessions.js";

/** What a server is started with. */
export interface ServerOptions {
  /** `postgres://…`; several servers may be listed, and the first that takes writes is used. */
  readonly databaseUrl: string;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 7788; 0 takes a free one. */
  readonly port?: number;
  /** A key with all scopes, above those of the projects; null where the database has keys, or with `insecure`. */
  readonly rootKey: string | null;
  /** Serves callers without a key, with all scopes. */
  readonly insecure?: boolean;
  readonly tls?: TlsFiles;
  /** How often workers send heartbeats. Default 5 s; tests lower it. */
  readonly heartbeatIntervalMs?: number;
  /** How old a stream may grow before its client is asked to open the next one elsewhere. Default 30 min. */
  readonly maxStreamAgeMs?: number;
  /** What each key, end user and project may use. Default: as much as there is. */
  readonly quotas?: QuotaLimits;
  /** How long ended runs are kept. Default null: for ever. */
  readonly retentionMs?: number | null;
  /**
   * The database is reached through a pooler in transaction mode: no named statements, no LISTEN; other nodes'
   * doings are found by polling. Default: found out at the start.
   */
  readonly pooler?: boolean;
  /** Connections to the database at most, besides the one that listens and three for upkeep. Default 10. */
  readonly maxConnections?: number;
  /** Connections of clients at most; those above it are closed at once. Default 10,000. */
  readonly maxClientConnections?: number;
  /** Origins whose pages may use the server from a browser, such as `https://app.example`. Default: none. */
  readonly corsOrigins?: readonly string[];
  /** The time by which keys and tokens expire, in milliseconds since 1970. Default `Date.now`. */
  readonly now?: () => number;
  readonly log: Log;
}

/** A server that is running. */
export interface Server {
  /** Where it serves, such as `http://127.0.0.1:7788`. */
  readonly url: string;
  readonly port: number;
  readonly nodeId: string;
  /**
   * Takes another certificate for the connections to come; those that are open live on.
   *
   * @throws TrunklineError INVALID_FIELD where the files cannot be used; it goes on with those that it has
   */
  renewTls(files: TlsFiles): void;
  /** Does what is due by now without waiting for its time: for tests that have moved the database's clock. */
  catchUp(): Promise<void>;
  /** Has calls wait in their queues until the result is called: for tests that move that clock in steps. */
  holdClaims(): () => void;
  /**
   * Ends it: takes no more connections, tells clients to go, waits at most `graceMs` (5 s by default) for
   * what is under way, and leaves the rest to the other nodes or the next start.
   */
  stop(options?: { readonly graceMs?: number }): Promise<void>;
}

const POOLER = "without LISTEN: what other nodes do is found by polling, within 2 s";
const POOLER_FOUND = `notifications do not arrive, as behind a pooler in transaction mode; going on ${POOLER}. Give the database's own address to be told at once`;

const DEFAULT_PORT = 7788;
const DEFAULT_HEARTBEAT_MS = 5_000;
const DEFAULT_CONNECTIONS = 10;
const DEFAULT_CLIENT_CONNECTIONS = 10_000;
/** One for hellos, one for other signs of life, one for the ends of streams, and one always free for the renewal. */
const UPKEEP_CONNECTIONS = 4;
const LEAST_UPKEEP_TIMEOUT_MS = 2_000;
const DEFAULT_GRACE_MS = 5_000;
const LEAVING_MS = 1_000;

/**
 * Starts a server: migrates the database, starts the upkeep, then listens.
 *
 * @throws TrunklineError UNAVAILABLE when the database or the port is not to be had, or the database's
 *   schema is newer than this server.
 */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { log } = options;
  const report = errorLogger(log);
  const onError = (error: unknown): void => {
    // That the database is away is said once.
    if (exchange?.availability.isDown !== true || classifyError(error) !== "lost") report(error);
  };
  await migrate(options.databaseUrl);
  const nodeId = randomUUID();
  // The exchange is made once it is known whether hints arrive, since a pooler that swallows them also takes
  // no named statements.
  let exchange: Exchange | null = null;
  const listener = new HintListener({
    url: options.databaseUrl,
    nodeId,
    onHint: (hint) => exchange?.heard(hint),
    onGap: () => exchange?.missed(),
    onError,
  });
  const unnamed = options.pooler === true || !(await listener.start());
  if (unnamed) log.warn(options.pooler === true ? POOLER : POOLER_FOUND);
  const heartbeatIntervalMs = options.heartbeatIntervalMs ?? DEFAULT_HEARTBEAT_MS;
  const common = { url: options.databaseUrl, unnamed, onError };
  const db = openDatabase({ ...common, maxConnections: options.maxConnections ?? DEFAULT_CONNECTIONS });
  const upkeep = openDatabase({
    ...common,
    applicationName: "trunkline upkeep",
    maxConnections: UPKEEP_CONNECTIONS,
    // A connection that has died costs one renewal, not two, after which the node would count as without database.
    queryTimeoutMs: Math.max(heartbeatIntervalMs, LEAST_UPKEEP_TIMEOUT_MS),
  });
  const close = async (): Promise<void> => {
    await listener.stop();
    await Promise.all([db.close(), upkeep.close()]);
  };
  try {
    for (const warning of await checkDurability(db)) log.warn(warning);
    await registerNode(upkeep, nodeId, "", heartbeatIntervalMs);
    const hearsHints = (): boolean => listener.hears;
    exchange = new Exchange({ db, upkeep, nodeId, heartbeatIntervalMs, hearsHints, onError });
    tellOutages(exchange, log, [db, upkeep]);
    await exchange.hints.greet();
    return await serve(options, exchange, onError, close);
  } catch (error) {
    await close();
    throw error;
  }
}

/** Says when the database goes and when it is back; connections that may never answer again are given up. */
function tellOutages({ availability }: Exchange, log: Log, databases: readonly ConnectedDatabase[]): void {
  let since = 0;
  availability.onChange((isDown, error) => {
    if (isDown) {
      since = performance.now();
      log.error(
        { err: loggedError(error) },
        "the database has been away for two heartbeat intervals: not serving until it is back",
      );
      for (const database of databases) database.reset();
    } else {
      log.warn({ awayMs: Math.round(performance.now() - since) }, "the database is back: serving again");
    }
  });
}

/** Who may come in. A server that nobody could ever use does not start. */
async function openAccess(options: ServerOptions, { db }: Exchange): Promise<Access> {
  const { rootKey, insecure = false, now = Date.now } = options;
  const book = new AccessBook(db);
  await book.read();
  if (insecure || rootKey !== null || book.hasKeys) return new Access({ rootKey, insecure, book, now });
  throw new TrunklineError(
    "INVALID_FIELD",
    "TRUNKLINE_ROOT_KEY: is not set, and the database has no keys; make one with `trunkline init`, set " +
      "TRUNKLINE_ROOT_KEY to a long random text, or say --insecure to serve everybody without a key",
    { metadata: { field: "TRUNKLINE_ROOT_KEY" } },
  );
}

async function serve(
  options: ServerOptions,
  exchange: Exchange,
  onError: (error: unknown) => void,
  close: () => Promise<void>,
): Promise<Server> {
  const { log } = options;
  const { availability, upkeep, nodeId } = exchange;
  const access = await openAccess(options, exchange);
  const { retentionMs = null } = options;
  const maintenance = new Maintenance({ exchange, retentionMs, access, onError });
  const { quotas = {} } = options;
  const bounds = Object.keys(quotas).length === 0 ? null : new Quotas(exchange.db, quotas);
  const deps = serviceDeps(exchange, onError, options.maxStreamAgeMs, bounds);
  access.onRecheck(() => deps.streams.expel((caller) => access.refusalOf(caller)));
  let serving = true;
  const forgetNode = async (): Promise<void> => {
    if (!availability.isDown) await removeNode(upkeep, nodeId).catch(onError);
  };
  const listener = await listen({
    host: options.host ?? "127.0.0.1",
    port: options.port ?? DEFAULT_PORT,
    ...(options.tls === undefined ? {} : { tls: options.tls }),
    handler: withCors(
      serviceHandler(deps, access, () => serving),
      { origins: options.corsOrigins ?? [], isOpen: access.insecure },
    ),
    maxConnections: options.maxClientConnections ?? DEFAULT_CLIENT_CONNECTIONS,
    onError,
  }).catch(async (error: unknown) => {
    await forgetNode();
    throw error;
  });
  maintenance.start();
  log.info({ node: nodeId, url: listener.url }, "serving");
  let stopped: Promise<void> | null = null;
  const stop = async (graceMs: number): Promise<void> => {
    serving = false;
    log.info({ node: nodeId }, "stopping");
    exchange.stop();
    deps.streams.shutDown(Math.max(1, graceMs - LEAVING_MS));
    await listener.close({ graceMs });
    await maintenance.stop();
    // What a stream leaves behind is written after its connection has gone.
    await deps.streams.idle(LEAVING_MS);
    await forgetNode();
    await close();
  };
  return {
    url: listener.url,
    port: listener.port,
    nodeId,
    renewTls: (files) => listener.renewTls(files),
    catchUp: () => maintenance.catchUp(),
    holdClaims: () => exchange.dispatch.hold(),
    stop: ({ graceMs = DEFAULT_GRACE_MS } = {}) => (stopped ??= stop(graceMs)),
  };
}
