import { afterAll, beforeAll } from "vitest";
import { Trunkline, type Call, type CallState } from "@trunkline/sdk";
import { useDatabase, type TestDatabase } from "./database.js";
import { ServerProcess } from "./server-process.js";
import { TcpProxy } from "./tcp-proxy.js";
import { until } from "./until.js";
import { WorkerProcess, type WorkerProgramOptions } from "./worker-process.js";

/** A database, a server on it in its own process, and a client in the test's. */
export interface Stack {
  readonly database: TestDatabase;
  readonly server: ServerProcess;
  /** A harness. */
  readonly client: Trunkline;
  /** Another client, which the test closes. */
  newClient(): Trunkline;
  /** Starts a worker in its own process. It serves `tools`, or the tool that has its name; resolves at its welcome. */
  worker(options: Partial<WorkerProgramOptions> & { readonly name: string }): Promise<WorkerProcess>;
  /** A network between the server and whoever uses the proxy's URL. */
  proxy(): Promise<TcpProxy>;
  /** The call as it stands, once it is in this state. */
  inState(callId: string, state: CallState, withinMs?: number): Promise<Call>;
}

/**
 * Gives the test file a server process on a database of its own, from before its first test until after its
 * last. The file ends with the server's shutdown, and fails if that takes long.
 */
export function useStack(): Stack {
  const database = useDatabase();
  let server: ServerProcess | undefined;
  let client: Trunkline | undefined;
  const current = (): { server: ServerProcess; client: Trunkline } => {
    if (server === undefined || client === undefined) {
      throw new Error("useStack: it is there only while tests run");
    }
    return { server, client };
  };
  beforeAll(async () => {
    server = await ServerProcess.start({ databaseUrl: database.url });
    client = clientOf(server.url);
  });
  afterAll(async () => {
    await client?.close();
    await server?.stop();
  });
  return {
    database,
    get server() {
      return current().server;
    },
    get client() {
      return current().client;
    },
    newClient: () => clientOf(current().server.url),
    worker: async (options) => {
      const worker = new WorkerProcess({ url: current().server.url, tools: [options.name], ...options });
      await attached(database, worker);
      return worker;
    },
    proxy: () => TcpProxy.start(current().server.port),
    inState: async (callId, state, withinMs) => {
      const { calls } = current().client;
      return until(
        `call ${callId} is ${state}`,
        async () => {
          const call = await calls.get(callId);
          return call.state === state ? call : undefined;
        },
        withinMs,
      );
    },
  };
}

/** A client that does not say that a tool has no worker yet. */
export function clientOf(url: string): Trunkline {
  return new Trunkline({ url, onWarning: () => undefined });
}

/** Resolves when the server has taken the worker's hello. */
export async function attached(database: TestDatabase, worker: WorkerProcess): Promise<void> {
  await until(`worker ${worker.name} is connected`, async () => {
    if (!worker.isAlive) throw new Error(`worker ${worker.name} ended: ${worker.stderr}`);
    const { rows } = await database
      .pool()
      .query("SELECT FROM sessions WHERE worker = $1 AND state = 'attached'", [worker.name]);
    return rows.length > 0;
  });
}
