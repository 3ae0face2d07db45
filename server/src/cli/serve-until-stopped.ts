import type { Server, ServerOptions } from "../server.js";
import { explainDatabaseError } from "./database-problem.js";
import type { Output } from "./output.js";
import type { StopSignals } from "./stop-signals.js";

/**
 * Starts a server, says on standard output where it serves, and stops it when a signal asks for that. A
 * signal that comes before it serves ends the wait: what was half started ends with the process.
 *
 * @param onServing called once it serves
 * @throws TrunklineError when it cannot start
 */
export async function serveUntilStopped(
  options: ServerOptions,
  output: Output,
  signals: StopSignals,
  onServing: (server: Server) => void = () => undefined,
): Promise<void> {
  const { startServer } = await import("../server.js");
  const starting = startServer(options).catch((error: unknown) => {
    throw explainDatabaseError(error, options.databaseUrl);
  });
  const server = await Promise.race([starting, signals.first]);
  if (server === undefined) {
    // It may still fail, and nobody is there to hear it.
    starting.catch(() => undefined);
    return;
  }
  onServing(server);
  output.answer({ url: server.url, port: server.port }, `ready ${server.url}`);
  await signals.first;
  await server.stop();
}
