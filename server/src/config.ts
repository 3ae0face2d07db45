import { isIPv4 } from "node:net";
import { QUOTA_NAMES, type QuotaLimits } from "./core/quota.js";
import { parseDuration } from "./core/duration.js";
import { TrunklineError } from "./core/error.js";
import type { LogLevel } from "./log.js";

/** The environment's variables; an empty one counts as not set. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Flags of every command that starts a server, as they were typed. */
export interface ServerFlags {
  readonly host?: string;
  readonly port?: string;
  readonly heartbeatInterval?: string;
  readonly retention?: string;
  readonly pool?: string;
  readonly maxConnections?: string;
  readonly corsOrigin?: readonly string[];
  readonly logLevel?: string;
}

/** What every command that starts a server has settled. */
export interface ServerConfig {
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
  readonly heartbeatIntervalMs: number;
  /** How long ended runs are kept; null: for ever. */
  readonly retentionMs: number | null;
  /** Connections to the database at most. */
  readonly maxConnections: number;
  /** Connections of clients at most. */
  readonly maxClientConnections: number;
  /** Origins whose pages may use the server from a browser, as browsers write them. */
  readonly corsOrigins: readonly string[];
  readonly logLevel: LogLevel;
}

/** Flags of `trunkline dev`, as they were typed. */
export interface DevFlags extends ServerFlags {
  readonly data?: string;
}

/** What `trunkline dev` has settled. */
export interface DevConfig extends ServerConfig {
  readonly database:
    | { readonly kind: "url"; readonly url: string }
    /** `isDefault`: nobody named the folder. */
    | { readonly kind: "embedded"; readonly dataDir: string; readonly isDefault: boolean };
}

/** Flags of `trunkline serve`, as they were typed. */
export interface ServeFlags extends ServerFlags {
  readonly databaseUrl?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly insecure?: boolean;
  readonly insecurePlaintext?: boolean;
  readonly pooler?: boolean;
  /** Each `NAME=N`. */
  readonly limit?: readonly string[];
}

/** What `trunkline serve` has settled. */
export interface ServeConfig extends ServerConfig {
  /** With its password: not for logs. */
  readonly databaseUrl: string;
  /** Never for logs. */
  readonly rootKey: string | null;
  readonly insecure: boolean;
  /** The names of two PEM files; null: no TLS. */
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null;
  /** The database is behind a pooler in transaction mode; false: found out at the start. */
  readonly pooler: boolean;
  /** What each key, end user and project may use. */
  readonly quotas: QuotaLimits;
}

/** The port when none is named. */
export const DEFAULT_PORT = 7788;
/** Where `dev` keeps its data when nothing is named, below the current folder. */
export const DEFAULT_DATA_DIR = ".trunkline/pg";

const MAX_PORT = 65_535;
const DEFAULT_HEARTBEAT_MS = 5_000;
/** How often workers may be asked for heartbeats: a timeout is at least three times as long, and 1 minute by default. */
export const HEARTBEAT_INTERVAL = {
  leastMs: 10,
  mostMs: 20_000,
  allowed: "allowed are 10ms to 20s",
} as const;
const DEFAULT_CLIENT_CONNECTIONS = 10_000;
const MAX_CLIENT_CONNECTIONS = 1_000_000;
const DEFAULT_CONNECTIONS = 10;
const MIN_CONNECTIONS = 2;
const MAX_CONNECTIONS = 1_000;

const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const satisfies readonly LogLevel[];
/** With the port left out where it is the usual one. */
const ORIGIN = /^https?:\/\/([a-z0-9._-]+|\[[0-9a-f:]+\])(:\d+)?$/;
const DATABASE_URL = /^postgres(ql)?:\/\/./;

function refuse(field: string, why: string): TrunklineError {
  return new TrunklineError("INVALID_FIELD", `${field}: ${why}`, { metadata: { field } });
}

/** Whether only programs of this machine reach a server that listens there. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
}

/** A variable's value; undefined when it is empty, too. */
function variable(env: Environment, name: string): string | undefined {
  const value = env[name];
  return value === "" ? undefined : value;
}

/**
 * Reads a whole number.
 *
 * @throws TrunklineError INVALID_FIELD
 */
export function parseWhole(text: string, field: string, min: number, max: number): number {
  const value = /^(0|[1-9][0-9]{0,14})$/.test(text) ? Number(text) : NaN;
  if (value >= min && value <= max) return value;
  throw refuse(field, `${JSON.stringify(text)}; allowed are whole numbers from ${min} to ${max}`);
}

function readPort(flag: string | undefined, env: Environment): number {
  if (flag !== undefined) return parseWhole(flag, "--port", 0, MAX_PORT);
  const named = variable(env, "TRUNKLINE_PORT");
  return named === undefined ? DEFAULT_PORT : parseWhole(named, "TRUNKLINE_PORT", 0, MAX_PORT);
}

function readHeartbeat(flag: string | undefined): number {
  if (flag === undefined) return DEFAULT_HEARTBEAT_MS;
  const ms = parseDuration(flag, "--heartbeat-interval");
  const { leastMs, mostMs, allowed } = HEARTBEAT_INTERVAL;
  if (ms >= leastMs && ms <= mostMs) return ms;
  throw refuse("--heartbeat-interval", `${JSON.stringify(flag)}; ${allowed}`);
}

function readLogLevel(flag: string | undefined): LogLevel {
  if (flag === undefined) return "info";
  const level = LOG_LEVELS.find((name) => name === flag);
  if (level !== undefined) return level;
  throw refuse("--log-level", `${JSON.stringify(flag)}; allowed are ${LOG_LEVELS.join(", ")}`);
}

function readMaxClients(flag: string | undefined): number {
  if (flag === undefined) return DEFAULT_CLIENT_CONNECTIONS;
  return parseWhole(flag, "--max-connections", 1, MAX_CLIENT_CONNECTIONS);
}

function readOrigins(flags: readonly string[] | undefined, env: Environment): string[] {
  if (flags !== undefined) return flags.map((flag) => readOrigin(flag, "--cors-origin"));
  const named = variable(env, "TRUNKLINE_CORS_ORIGINS")?.split(/[\s,]+/) ?? [];
  return named.filter(Boolean).map((origin) => readOrigin(origin, "TRUNKLINE_CORS_ORIGINS"));
}

function readOrigin(text: string, field: string): string {
  const written = URL.canParse(text) ? new URL(text).origin : "";
  // Browsers write it in one way, and anything else would never match.
  if (ORIGIN.test(text) && written === text) return text;
  const meant = ORIGIN.test(written) ? `; this one would be ${written}` : "";
  throw refuse(
    field,
    `${JSON.stringify(text)}; allowed are origins as browsers write them, such as https://app.example or ` +
      `http://localhost:5173, each by its full name${meant}`,
  );
}

function readServer(flags: ServerFlags, env: Environment): ServerConfig {
  const { host = "127.0.0.1", retention, pool } = flags;
  if (host === "") throw refuse("--host", "is empty; allowed is a name or an address of this machine");
  return {
    host,
    port: readPort(flags.port, env),
    heartbeatIntervalMs: readHeartbeat(flags.heartbeatInterval),
    retentionMs: retention === undefined ? null : parseDuration(retention, "--retention"),
    maxConnections:
      pool === undefined ? DEFAULT_CONNECTIONS : parseWhole(pool, "--pool", MIN_CONNECTIONS, MAX_CONNECTIONS),
    maxClientConnections: readMaxClients(flags.maxConnections),
    corsOrigins: readOrigins(flags.corsOrigin, env),
    logLevel: readLogLevel(flags.logLevel),
  };
}

function checkDatabaseUrl(url: string, field: string): string {
  // The value itself stays out of the message: it may hold a password.
  if (!DATABASE_URL.test(url)) throw refuse(field, "is not postgres://USER@HOST:PORT/NAME");
  return url;
}

/**
 * The database that a flag or else the environment names.
 *
 * @throws TrunklineError INVALID_FIELD where there is none, or it is not a PostgreSQL connection string
 */
export function readDatabaseUrl(flag: string | undefined, env: Environment): string {
  if (flag !== undefined) return checkDatabaseUrl(flag, "--database-url");
  const named = variable(env, "DATABASE_URL");
  if (named !== undefined) return checkDatabaseUrl(named, "DATABASE_URL");
  throw refuse(
    "DATABASE_URL",
    "is not set; give it, or --database-url, as postgres://USER@HOST:PORT/NAME, or use `trunkline dev`, " +
      "which brings its own database",
  );
}

/**
 * Settles what `trunkline dev` starts. It has no keys, so it listens on loopback only. A data folder that
 * was named by flag goes before `DATABASE_URL`.
 *
 * @throws TrunklineError INVALID_FIELD
 */
export function readDevConfig(flags: DevFlags, env: Environment): DevConfig {
  const server = readServer(flags, env);
  if (!isLoopback(server.host)) {
    throw refuse(
      "--host",
      `${JSON.stringify(server.host)} is not loopback, and dev asks nobody for a key; allowed are 127.0.0.1, ` +
        "::1 and localhost, or use `trunkline serve`",
    );
  }
  if (flags.data === "") throw refuse("--data", "is empty; allowed is the name of a folder");
  const url = variable(env, "DATABASE_URL");
  if (flags.data === undefined && url !== undefined) {
    return { ...server, database: { kind: "url", url: checkDatabaseUrl(url, "DATABASE_URL") } };
  }
  const dataDir = flags.data ?? DEFAULT_DATA_DIR;
  return { ...server, database: { kind: "embedded", dataDir, isDefault: flags.data === undefined } };
}

const MAX_QUOTA = 1_000_000_000;

function readQuotas(flags: readonly string[]): QuotaLimits {
  const quotas: Partial<Record<keyof QuotaLimits, number>> = {};
  for (const flag of flags) {
    const [, name, count] = /^([^=]*)=(.*)$/s.exec(flag) ?? [];
    const quota = QUOTA_NAMES.find((each) => each === name);
    if (quota === undefined || count === undefined) {
      throw refuse("--limit", `${JSON.stringify(flag)}; allowed are NAME=N with ${QUOTA_NAMES.join(", ")}`);
    }
    if (quotas[quota] !== undefined) throw refuse("--limit", `${quota} is given twice; allowed is once`);
    quotas[quota] = parseWhole(count, `--limit ${quota}`, 1, MAX_QUOTA);
  }
  return quotas;
}

function readRootKey(env: Environment): string | null {
  const key = variable(env, "TRUNKLINE_ROOT_KEY");
  // Whether the database has keys is seen at the start.
  if (key === undefined) return null;
  // What no HTTP header can carry could never be matched. The key itself stays out of the message.
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw refuse(
    "TRUNKLINE_ROOT_KEY",
    "has a space, a control character (a trailing newline?) or a character outside ASCII; allowed are " +
      "visible ASCII characters",
  );
}

/**
 * Settles what `trunkline serve` starts. Keys come from the environment alone, since a command line is
 * visible to every user of the machine.
 *
 * @throws TrunklineError INVALID_FIELD
 */
export function readServeConfig(flags: ServeFlags, env: Environment): ServeConfig {
  const { tlsCert, tlsKey, insecure = false, insecurePlaintext = false, pooler = false } = flags;
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    const [given, missing] = tlsCert === undefined ? ["key", "cert"] : ["cert", "key"];
    throw refuse(`--tls-${missing}`, `is not given, but --tls-${given} is; give both, or neither`);
  }
  const server = readServer(flags, env);
  if (tlsCert === undefined && !isLoopback(server.host) && !insecurePlaintext) {
    throw refuse(
      "--host",
      `${JSON.stringify(server.host)} is not loopback, and keys and payloads would cross the network as plain ` +
        "text; give --tls-cert and --tls-key, or say --insecure-plaintext where something else keeps them secret, " +
        "such as a proxy that ends the TLS on a network that you trust",
    );
  }
  const rootKey = readRootKey(env);
  return {
    ...server,
    databaseUrl: readDatabaseUrl(flags.databaseUrl, env),
    rootKey,
    insecure,
    pooler,
    quotas: readQuotas(flags.limit ?? []),
    tls: tlsCert === undefined || tlsKey === undefined ? null : { certFile: tlsCert, keyFile: tlsKey },
  };
}
