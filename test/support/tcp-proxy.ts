import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** `up`: to the server; `down`: from it. */
export type Direction = "up" | "down";

interface Link {
  readonly client: Socket;
  readonly server: Socket;
}

/**
 * Stands between clients and a server, and does to their connections what networks do. Bytes that it holds
 * when a connection ends are lost, as those in a broken network are.
 */
export class TcpProxy implements AsyncDisposable {
  readonly #listener: Server;
  readonly #targetPort: number;
  readonly #links = new Set<Link>();
  readonly #held = new Set<Direction>();
  #refusing = false;
  /** Connections that were let through so far. */
  connections = 0;

  private constructor(targetPort: number) {
    this.#targetPort = targetPort;
    this.#listener = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      this.#accept(client);
    });
  }

  /** Listens on a free port, and lets through what comes. */
  static async start(targetPort: number): Promise<TcpProxy> {
    const proxy = new TcpProxy(targetPort);
    proxy.#listener.listen(0, "127.0.0.1");
    await once(proxy.#listener, "listening");
    return proxy;
  }

  get url(): string {
    // What Node documents of a TCP server.
    return `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
  }

  /** Keeps what goes in this direction, on all connections, those to come too; the other side sees silence. */
  hold(direction: Direction): void {
    this.#held.add(direction);
    for (const link of this.#links) source(link, direction).pause();
  }

  /** Holds both directions: a black hole. */
  blackHole(): void {
    this.hold("up");
    this.hold("down");
  }

  /** Lets go of what was held, and lets through again. */
  release(): void {
    this.#held.clear();
    for (const link of this.#links) {
      source(link, "up").resume();
      source(link, "down").resume();
    }
  }

  /** Ends all connections: `rst` at once, with an error on both sides; `fin` in order. What is held is lost. */
  cut(how: "rst" | "fin"): void {
    for (const { client, server } of this.#links) {
      for (const socket of [client, server]) {
        if (how === "rst") socket.resetAndDestroy();
        else {
          socket.end();
          socket.resume();
        }
      }
    }
    this.#links.clear();
  }

  /** Refuses new connections until {@link admit}. */
  refuse(): void {
    this.#refusing = true;
  }

  admit(): void {
    this.#refusing = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { client, server } of this.#links) {
      client.destroy();
      server.destroy();
    }
    this.#listener.close();
    await once(this.#listener, "close");
  }

  #accept(client: Socket): void {
    client.on("error", () => undefined);
    if (this.#refusing) {
      client.resetAndDestroy();
      return;
    }
    this.connections++;
    const server = connect({ port: this.#targetPort, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    const link: Link = { client, server };
    this.#links.add(link);
    this.#carry(link, "up");
    this.#carry(link, "down");
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        other.destroy();
        this.#links.delete(link);
      });
    }
  }

  #carry(link: Link, direction: Direction): void {
    const from = source(link, direction);
    const to = direction === "up" ? link.server : link.client;
    from.on("data", (bytes) => {
      if (!this.#links.has(link)) return;
      // What slipped out of the pause waits in front of the rest.
      if (this.#held.has(direction)) {
        from.pause();
        from.unshift(bytes);
        return;
      }
      if (!to.write(bytes)) {
        from.pause();
        to.once("drain", () => {
          if (!this.#held.has(direction)) from.resume();
        });
      }
    });
    from.on("end", () => {
      if (this.#links.has(link)) to.end();
    });
    if (this.#held.has(direction)) from.pause();
  }
}

function source({ client, server }: Link, direction: Direction): Socket {
  return direction === "up" ? client : server;
}
