import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** What every HTTP/2 connection begins with. */
const HTTP2 = "PRI";

/** What becomes of HTTP/2: it passes, is cut, or is taken and never answered, as by a proxy that buffers. */
export type Http2Fate = "passes" | "is cut" | "is swallowed";

/** A network that carries HTTP/1.1, and HTTP/2 as the test says. */
export class PickyNetwork implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  http2: Http2Fate = "is cut";
  /** HTTP/2 connections that were tried. */
  tries = 0;

  private constructor(port: number) {
    this.#server = createServer((client) => {
      this.#keep(client);
      client.once("data", (first: Buffer) => {
        if (first.toString("latin1", 0, HTTP2.length) === HTTP2) {
          this.tries++;
          if (this.http2 === "is cut") client.destroy();
          if (this.http2 !== "passes") return;
        }
        const server = connect({ port, host: "127.0.0.1" });
        this.#keep(server);
        server.write(first);
        client.pipe(server).pipe(client);
        client.once("close", () => server.destroy());
        server.once("close", () => client.destroy());
      });
    });
  }

  /** Stands before the server at this address. */
  static async start(target: string): Promise<PickyNetwork> {
    const network = new PickyNetwork(Number(new URL(target).port));
    network.#server.listen(0, "127.0.0.1");
    await once(network.#server, "listening");
    return network;
  }

  get url(): string {
    // What Node documents of a TCP server.
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  }

  /** Cuts all connections; new ones are taken. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.cut();
    await closed;
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => this.#sockets.delete(socket));
  }
}
