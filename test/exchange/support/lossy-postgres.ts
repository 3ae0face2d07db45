import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** What happens to a connection that carries a statement. */
export type Loss =
  /** The statement is carried out, its reply is dropped, and then the connection is cut. */
  | "reply"
  /** The client's connection is cut while the server goes on with the statement. */
  | "client";

interface Plan {
  readonly statement: string;
  readonly loss: Loss;
  readonly met: () => void;
}

/** PostgreSQL's `ReadyForQuery` outside of a transaction: what ends the reply to a statement. */
const READY = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);

/** Stands between a node and PostgreSQL, and loses what it is told to lose. */
export class LossyPostgres implements AsyncDisposable {
  readonly #listener: Server;
  readonly #target: URL;
  readonly #sockets = new Set<Socket>();
  readonly #plans: Plan[] = [];
  #refusing = false;

  private constructor(databaseUrl: string) {
    this.#target = new URL(databaseUrl);
    this.#listener = createServer({ noDelay: true }, (client) => this.#accept(client));
  }

  static async start(databaseUrl: string): Promise<LossyPostgres> {
    const proxy = new LossyPostgres(databaseUrl);
    proxy.#listener.listen(0, "127.0.0.1");
    await once(proxy.#listener, "listening");
    return proxy;
  }

  /** The database's connection string, by way of this proxy. */
  get url(): string {
    const url = new URL(this.#target);
    url.hostname = "127.0.0.1";
    // What Node documents of a TCP server.
    url.port = String((this.#listener.address() as AddressInfo).port);
    return url.href;
  }

  /** Loses the next run of this statement; resolves once that has happened. */
  lose(statement: string, loss: Loss): Promise<void> {
    return new Promise((met) => this.#plans.push({ statement: `${statement}\0`, loss, met }));
  }

  /** Cuts all connections and takes no new ones, until {@link admit}. */
  refuse(): void {
    this.#refusing = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  admit(): void {
    this.#refusing = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#listener.close();
    await once(this.#listener, "close");
  }

  #accept(client: Socket): void {
    client.on("error", () => undefined);
    if (this.#refusing) {
      client.destroy();
      return;
    }
    const server = connect({ port: Number(this.#target.port), host: this.#target.hostname, noDelay: true });
    let losing: Plan | undefined;
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => this.#sockets.delete(socket));
    }
    client.on("close", () => losing?.loss === "client" || server.destroy());
    server.on("close", () => client.destroy());
    client.on("data", (bytes) => {
      server.write(bytes);
      if (losing !== undefined) return;
      const index = this.#plans.findIndex(({ statement }) => bytes.includes(statement));
      if (index < 0) return;
      [losing] = this.#plans.splice(index, 1);
      if (losing?.loss !== "client") return;
      losing.met();
      client.destroy();
    });
    server.on("data", (bytes) => {
      if (losing === undefined) client.write(bytes);
      else if (bytes.subarray(-READY.length).equals(READY)) {
        losing.met();
        client.destroy();
        server.destroy();
      }
    });
  }
}
