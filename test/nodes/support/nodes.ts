import { afterEach } from "vitest";
import type { Trunkline } from "@trunkline/sdk";
import { useDatabase, type TestDatabase } from "../../support/database.js";
import { ServerProcess, type ServerProcessOptions } from "../../support/server-process.js";
import { clientOf } from "../../support/stack.js";
import { TcpProxy } from "../../support/tcp-proxy.js";

/** Nodes on one database, each in its own process, and what is between them and their clients. */
export interface Nodes {
  readonly database: TestDatabase;
  /** Starts a node; it is stopped after the test. */
  start(options?: Partial<ServerProcessOptions>): Promise<ServerProcess>;
  /** A client of a node or of a balancer, closed after the test. */
  client(url: string): Trunkline;
  /** A balancer before these nodes, closed after the test. */
  balancer(...servers: readonly ServerProcess[]): Promise<TcpProxy>;
}

/** Gives the test file a database of its own. What a test starts is stopped after it: clients first, nodes last. */
export function useNodes(): Nodes {
  const database = useDatabase();
  const clients: Trunkline[] = [];
  const proxies: TcpProxy[] = [];
  const servers: ServerProcess[] = [];
  afterEach(async () => {
    for (const proxy of proxies) proxy.release();
    await Promise.all(clients.splice(0).map((client) => client.close()));
    await Promise.all(proxies.splice(0).map((proxy) => proxy[Symbol.asyncDispose]()));
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });
  return {
    database,
    start: async (options = {}) => {
      const server = await ServerProcess.start({ databaseUrl: database.url, ...options });
      servers.push(server);
      return server;
    },
    client: (url) => {
      const client = clientOf(url);
      clients.push(client);
      return client;
    },
    balancer: async (...targets) => {
      const proxy = await TcpProxy.start(...targets.map(({ port }) => port));
      proxies.push(proxy);
      return proxy;
    },
  };
}
