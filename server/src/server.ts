import { randomUUID } from "node:crypto";
import { Exchange } from "./exchange/exchange.js";
import { errorLogger, type Log } from "./log.js";
import { Maintenance } from "./maintenance/maintenance.js";
import { serviceDeps } from "./service/deps.js";
import { listen, type TlsFiles } from "./service/listener.js";
import { serviceHandler } from "./service/routes.js";
import { checkDurability, openDatabase } from "./store/database.js";
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
  /** The key with all scopes; null only with `insecure`. */
  readonly rootKey: string | null;
  /** Serves callers without a key, with all scopes. */
  readonly insecure?: boolean;
  readonly tls?: TlsFiles;
  /** How often workers send heartbeats. Default 5 s; tests lower it. */
  readonly heartbeatIntervalMs?: number;
  /** How old a stream may grow before its client is asked to open the next one elsewhere. Default 30 min. */
  readonly maxStreamAgeMs?: number;
  /** How long ended runs are kept. Default null: for ever. */
  readonly retentionMs?: number | null;
  /**
   * The database is reached through a pooler in transaction mode: no named statements, no LISTEN; other nodes'
   * doings are found by polling. Default: found out at the start.
   */
  readonly pooler?: boolean;
  /** Connections to the database at most, besides the one that listens. Default 10. */
  readonly maxConnections?: number;
  readonly log: Log;
}

/** A server that is running. */
export interface Server {
  /** Where it serves, such as `http://127.0.0.1:7788`. */
  readonly url: string;
  readonly port: number;
  readonly nodeId: string;
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
  const onError = errorLogger(log);
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
  const db = openDatabase({
    url: options.databaseUrl,
    maxConnections: options.maxConnections ?? DEFAULT_CONNECTIONS,
    unnamed,
    onError,
  });
  const close = async (): Promise<void> => {
    await listener.stop();
    await db.close();
  };
  try {
    for (const warning of await checkDurability(db)) log.warn(warning);
    const heartbeatIntervalMs = options.heartbeatIntervalMs ?? DEFAULT_HEARTBEAT_MS;
    await registerNode(db, nodeId, "", heartbeatIntervalMs);
    exchange = new Exchange({ db, nodeId, heartbeatIntervalMs, onError });
    return await serve(options, exchange, onError, close);
  } catch (error) {
    await close();
    throw error;
  }
}

async function serve(
  options: ServerOptions,
  exchange: Exchange,
  onError: (error: unknown) => void,
  close: () => Promise<void>,
): Promise<Server> {
  const { log } = options;
  const { db, nodeId } = exchange;
  const maintenance = new Maintenance({ exchange, retentionMs: options.retentionMs ?? null, onError });
  const deps = serviceDeps(exchange, onError, options.maxStreamAgeMs);
  let serving = true;
  const auth = { rootKey: options.rootKey, insecure: options.insecure ?? false };
  const forgetNode = (): Promise<void> => removeNode(db, nodeId).catch(onError);
  const listener = await listen({
    host: options.host ?? "127.0.0.1",
    port: options.port ?? DEFAULT_PORT,
    ...(options.tls === undefined ? {} : { tls: options.tls }),
    handler: serviceHandler(deps, auth, () => serving),
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
    stop: ({ graceMs = DEFAULT_GRACE_MS } = {}) => (stopped ??= stop(graceMs)),
  };
}
