import { afterAll, beforeAll } from "vitest";
import { createLog } from "../../../server/src/log.js";
import { startServer, type Server } from "../../../server/src/server.js";
import { Trunkline, type TrunklineOptions } from "../../../client/src/index.js";
import { createDatabase, type TestDatabase } from "../../support/database.js";

/** How often heartbeats are due at the real server in these tests. */
export const HEARTBEAT_MS = 200;

/** A real server on a real database, which can be restarted on the same port. */
export class Backend {
  readonly #database: TestDatabase;
  readonly #rootKey: string | null;
  #server: Server;

  private constructor(database: TestDatabase, rootKey: string | null, server: Server) {
    this.#database = database;
    this.#rootKey = rootKey;
    this.#server = server;
  }

  /** @param rootKey null: it asks nobody for a key */
  static async start(rootKey: string | null = null): Promise<Backend> {
    const database = await createDatabase();
    return new Backend(database, rootKey, await startOn(database, rootKey, 0));
  }

  get url(): string {
    return this.#server.url;
  }

  client(options: Omit<TrunklineOptions, "url"> = {}): Trunkline {
    return new Trunkline({ url: this.url, onWarning: () => undefined, ...options });
  }

  async restart(meanwhile: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    const { port } = this.#server;
    await this.#server.stop({ graceMs: 200 });
    await meanwhile();
    this.#server = await startOn(this.#database, this.#rootKey, port);
  }

  async stop(): Promise<void> {
    await this.#server.stop({ graceMs: 200 });
    await this.#database.drop();
  }
}

function startOn(database: TestDatabase, rootKey: string | null, port: number): Promise<Server> {
  return startServer({
    databaseUrl: database.url,
    port,
    rootKey,
    insecure: rootKey === null,
    heartbeatIntervalMs: HEARTBEAT_MS,
    log: createLog("error"),
  });
}

/** One {@link Backend} for all tests of a file; with a root key it asks for keys. */
export function useBackend(rootKey: string | null = null): () => Backend {
  let backend: Backend | undefined;
  beforeAll(async () => {
    backend = await Backend.start(rootKey);
  });
  afterAll(() => backend?.stop());
  return () => backend!;
}
