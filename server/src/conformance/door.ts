import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** One TCP connection of a program. */
export class Link {
  /** From 1, in the order in which they came. */
  readonly number: number;
  /** Who ended it; undefined while it is open. */
  endedBy: "program" | "kit" | undefined;
  readonly #client: Socket;
  readonly #server: Socket;

  constructor(number: number, client: Socket, server: Socket) {
    this.number = number;
    this.#client = client;
    this.#server = server;
  }

  /** From now on the program hears nothing: no frame, no answer to a ping, no end. What it says is still read. */
  silence(): void {
    this.#server.unpipe(this.#client);
    this.#server.pause();
  }

  /** Ends it: `rst` at once, with an error; `fin` in order, with nothing said before. */
  cut(how: "rst" | "fin"): void {
    this.endedBy ??= "kit";
    this.#server.unpipe(this.#client);
    this.#server.destroy();
    if (how === "rst") this.#client.resetAndDestroy();
    else this.#client.destroy();
  }
}

/** What a {@link Door} tells. */
export interface DoorEvents {
  onOpen(link: Link): void;
  onEnd(link: Link): void;
}

/**
 * The TCP port that programs connect to, in front of the server's own: it can be shut, and its connections cut and
 * silenced, as networks do.
 */
export class Door {
  readonly #events: DoorEvents;
  readonly #links = new Map<number, Link>();
  readonly #sockets = new Set<Socket>();
  #targetPort = 0;
  #listener: Server | undefined;
  #port = 0;
  #count = 0;

  constructor(events: DoorEvents) {
    this.#events = events;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Opens it, again on the port of the first time. */
  async open(targetPort = this.#targetPort): Promise<void> {
    this.#targetPort = targetPort;
    const listener = createServer({ noDelay: true }, (client) => this.#accept(client));
    listener.listen(this.#port, "127.0.0.1");
    await once(listener, "listening");
    // What Node documents of a TCP server.
    this.#port = (listener.address() as AddressInfo).port;
    this.#listener = listener;
  }

  /** Cuts all connections and refuses new ones until it is opened again. */
  async shut(): Promise<void> {
    const listener = this.#listener;
    this.#listener = undefined;
    if (listener === undefined) return;
    const closed = once(listener, "close");
    listener.close();
    for (const link of this.#links.values()) link.cut("rst");
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  /** The connection by which the server behind was reached from this port of its own side. */
  linkFrom(upstreamPort: number | undefined): Link | undefined {
    return upstreamPort === undefined ? undefined : this.#links.get(upstreamPort);
  }

  #accept(client: Socket): void {
    const server = connect({ port: this.#targetPort, host: "127.0.0.1", noDelay: true });
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      // Its close follows.
      socket.on("error", () => undefined);
      socket.once("close", () => this.#sockets.delete(socket));
    }
    client.once("close", () => server.destroy());
    server.once("connect", () => this.#join(client, server));
  }

  #join(client: Socket, server: Socket): void {
    const port = server.localPort;
    if (client.destroyed || port === undefined) return;
    const link = new Link(++this.#count, client, server);
    this.#links.set(port, link);
    this.#events.onOpen(link);
    // The server behind ends a connection only after a GOAWAY of the program.
    const ended = (): void => {
      if (!this.#links.delete(port)) return;
      link.endedBy ??= "program";
      this.#events.onEnd(link);
    };
    client.once("end", ended);
    client.once("close", ended);
    server.once("close", () => {
      ended();
      client.destroySoon();
    });
    client.pipe(server);
    server.pipe(client);
  }
}
