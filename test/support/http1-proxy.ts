import { once } from "node:events";
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";

interface TlsTexts {
  readonly cert: string;
  readonly key: string;
}

/** A proxy as there are many: it knows HTTP/1.1 and nothing else. It can lose what it carries, as networks do. */
export class Http1Proxy implements AsyncDisposable {
  readonly #target: URL;
  readonly #server: Server;
  readonly #lost: string[] = [];
  readonly #losing: (() => void)[] = [];
  /** Methods of the requests that came, in their order. */
  readonly methods: string[] = [];

  readonly #scheme: string;

  private constructor(target: string, tls: TlsTexts | undefined) {
    this.#target = new URL(target);
    this.#scheme = tls === undefined ? "http" : "https";
    const carry = (incoming: IncomingMessage, response: ServerResponse) => this.#carry(incoming, response);
    this.#server = tls === undefined ? createServer(carry) : createSecureServer(tls, carry);
  }

  /** Stands before the server at this address; with a certificate it speaks TLS to its clients. */
  static async start(target: string, tls?: TlsTexts): Promise<Http1Proxy> {
    const proxy = new Http1Proxy(target, tls);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get url(): string {
    // What Node documents of a TCP server.
    const { port } = this.#server.address() as AddressInfo;
    return `${this.#scheme}://127.0.0.1:${port}`;
  }

  /** Loses the next response of this method, once the server has given it; resolves when it is lost. */
  lose(method: string): Promise<void> {
    this.#lost.push(method);
    return new Promise((resolve) => this.#losing.push(resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  #carry(incoming: IncomingMessage, response: ServerResponse): void {
    const method = incoming.url?.split("/").at(-1) ?? "";
    this.methods.push(method);
    const { hostname, port } = this.#target;
    const { url: path, method: verb, headers } = incoming;
    const onward = request({ hostname, port, path, method: verb, headers }, (answer) => {
      if (this.#isLost(method)) {
        answer.resume();
        answer.once("end", () => {
          response.destroy();
          this.#losing.shift()?.();
        });
        return;
      }
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    response.once("close", () => onward.destroy());
    incoming.pipe(onward);
  }

  #isLost(method: string): boolean {
    const index = this.#lost.indexOf(method);
    if (index >= 0) this.#lost.splice(index, 1);
    return index >= 0;
  }
}
