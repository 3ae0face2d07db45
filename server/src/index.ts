export { TrunklineError, type Reason } from "./core/error.js";
export { createLog, type Log, type LogLevel } from "./log.js";
export { startServer, type Server, type ServerOptions } from "./server.js";
export { startEmbeddedPostgres } from "./embedded/embedded-postgres.js";
