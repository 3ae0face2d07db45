import type { Command } from "commander";
import type { ServerConfig } from "../config.js";
import type { Log } from "../log.js";
import type { ServerOptions } from "../server.js";

/** Adds the flags that every command which starts a server takes. */
export function addServerFlags(command: Command): Command {
  return command
    .option("--port <port>", "port to listen on, 0 for a free one (default: 7788; env: TRUNKLINE_PORT)")
    .option("--heartbeat-interval <duration>", "how often workers give a sign of life (default: 5s)")
    .option("--retention <duration>", "how long ended runs are kept, such as 30d (default: for ever)")
    .option("--pool <connections>", "connections to the database, besides five for upkeep (default: 10)")
    .option("--max-connections <count>", "connections of clients at most (default: 10000)")
    .option(
      "--cors-origin <origin>",
      "let pages of this origin use the server, such as https://app.example; may be repeated (default: none; " +
        "env: TRUNKLINE_CORS_ORIGINS)",
      addValue,
    )
    .option("--log-level <level>", "debug, info, warn, error or silent (default: info)");
}

/** Gathers the values of a flag that may be repeated. */
export function addValue(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value];
}

/** The part of a server's options that every command which starts one settles in the same way. */
export function commonOptions(
  config: ServerConfig,
  log: Log,
): Omit<ServerConfig, "logLevel"> & Pick<ServerOptions, "log"> {
  const { host, port, heartbeatIntervalMs, retentionMs, maxConnections, maxClientConnections } = config;
  const { corsOrigins } = config;
  const database = { maxConnections, retentionMs };
  return { host, port, heartbeatIntervalMs, ...database, maxClientConnections, corsOrigins, log };
}
