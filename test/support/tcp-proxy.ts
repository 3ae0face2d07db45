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
 * when a connection ends are lost, as those in a broken network are. Before several servers it is a balancer:
 * each connection goes to the next of them that takes it.
 */
export class TcpProxy implements AsyncDisposable {
  readonly #listener: Server;
  #targetPorts: readonly number[];
  #turn = 0;
  readonly #links = new Set<Link>();
  readonly #stranded = new Set<Link>();
  readonly #held = new Set<Direction>();
  #refusing = false;
  #idleMs: number | undefined;
  /** Connections that were let through so far. */
  connections = 0;

  private constructor(targetPorts: readonly number[]) {
    this.#targetPorts = targetPorts;
    this.#listener = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      this.#accept(client);
    });
  }

  /** Listens on a free port, and lets through what comes. */
  static async start(...targetPorts: readonly number[]): Promise<TcpProxy> {
    const proxy = new TcpProxy(targetPorts);
    proxy.#listener.listen(0, "127.0.0.1");
    await once(proxy.#listener, "listening");
    return proxy;
  }

  get port(): number {
    // What Node documents of a TCP server.
    return (this.#listener.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Connections that are open now. */
  get open(): number {
    return this.#links.size;
  }

  /** Sends connections to these servers from now on; those that are open stay where they are. */
  aim(...targetPorts: readonly number[]): void {
    this.#targetPorts = targetPorts;
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

  /**
   * Makes black holes of the connections that are open: no byte and no end passes any more, for ever. New ones
   * are let through.
   */
  strand(): void {
    for (const link of this.#links) {
      this.#stranded.add(link);
      source(link, "up").resume();
      source(link, "down").resume();
    }
    this.#links.clear();
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

  /** Resets connections on which nothing has passed, in either direction, for so long. */
  cutIdle(ms: number): void {
    this.#idleMs = ms;
    for (const { client, server } of this.#links) for (const socket of [client, server]) this.#watch(socket);
  }

  #watch(socket: Socket): void {
    if (this.#idleMs === undefined) return;
    // Node counts what is written and what is read.
    socket.setTimeout(this.#idleMs, () => socket.resetAndDestroy());
  }

  /** Refuses new connections until {@link admit}. */
  refuse(): void {
    this.#refusing = true;
  }

  admit(): void {
    this.#refusing = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { client, server } of [...this.#links, ...this.#stranded]) {
      client.destroy();
      server.destroy();
    }
    this.#stranded.clear();
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
    const from = this.#turn++ % this.#targetPorts.length;
    this.#reach(client, [...this.#targetPorts.slice(from), ...this.#targetPorts.slice(0, from)]);
  }

  /** Connects to the first of the servers that is there. */
  #reach(client: Socket, [port, ...others]: readonly number[]): void {
    if (port === undefined || client.destroyed) {
      client.resetAndDestroy();
      return;
    }
    const server = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    const refused = (): void => this.#reach(client, others);
    server.once("error", refused);
    server.once("connect", () => {
      server.off("error", refused);
      this.#join({ client, server });
    });
  }

  #join(link: Link): void {
    const { client, server } = link;
    if (client.destroyed) {
      server.destroy();
      return;
    }
    this.#links.add(link);
    for (const socket of [client, server]) this.#watch(socket);
    this.#carry(link, "up");
    this.#carry(link, "down");
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      socket.on("error", () => undefined);
      socket.on("close", () => {
        if (!this.#stranded.has(link)) other.destroy();
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
