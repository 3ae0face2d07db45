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
    .option("--log-level <level>", "debug, info, warn, error or silent (default: info)");
}

/** The part of a server's options that every command which starts one settles in the same way. */
export function commonOptions(
  config: ServerConfig,
  log: Log,
): Pick<ServerOptions, "host" | "port" | "heartbeatIntervalMs" | "retentionMs" | "maxConnections" | "log"> {
  const { host, port, heartbeatIntervalMs, retentionMs, maxConnections } = config;
  return { host, port, heartbeatIntervalMs, retentionMs, maxConnections, log };
}
