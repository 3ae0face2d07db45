import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** What the page of the tests is told, in its address. */
export interface PageSetup {
  readonly url: string;
  readonly token?: string;
  /** Watches this run. */
  readonly run?: string;
  /** Whether only calls of the run are listed. Default false. */
  readonly only?: boolean;
}

/** What the page of the tests has seen: `seen` there. */
export interface PageSeen {
  /** Tools of the open calls, as they were listed one after the other. */
  readonly lists: readonly string[];
  /** How the listing ended. */
  readonly ended?: string;
  /** Calls with their states, and states of the run. */
  readonly events: readonly string[];
  readonly over?: string;
  readonly warnings: readonly string[];
}

const PAGE = `<!doctype html><title>Trunkline</title>
<script src="/trunkline.js"></script>
<script>
  const { run, only, ...options } = JSON.parse(decodeURIComponent(location.hash.slice(1)));
  const seen = { lists: [], events: [], warnings: [] };
  const onWarning = (text) => seen.warnings.push(text);
  const page = trunkline.connectTrunkline({ ...options, onWarning });
  let calls = [];
  (async () => {
    for await (calls of page.openCalls(only ? { run } : {})) seen.lists.push(calls.map(({ key }) => key).join());
    return "done";
  })().then((end) => (seen.ended = end), (error) => (seen.ended = error.reason ?? String(error)));
  if (run !== undefined) (async () => {
    const { cursor } = sessionStorage;
    for await (const event of page.watchRun(run, cursor === undefined ? {} : { cursor })) {
      sessionStorage.cursor = event.cursor;
      seen.events.push(event.type === "call" ? event.call.key + " " + event.call.state : event.run.state);
    }
    return "done";
  })().then((end) => (seen.over = end), (error) => (seen.over = error.reason ?? String(error)));
</script>`;

/** Serves the page of the tests, with the bundle, under an origin of its own. */
export class PageServer implements AsyncDisposable {
  readonly origin: string;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    // A TCP address: it listens on a port.
    this.origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async start(bundle: string): Promise<PageServer> {
    const server = createServer(({ url }, response) => {
      const [type, body] = url === "/trunkline.js" ? ["text/javascript", bundle] : ["text/html", PAGE];
      response.writeHead(200, { "content-type": `${type};charset=utf-8` }).end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new PageServer(server);
  }

  /** The address of the page, set up so. */
  at(setup: PageSetup): string {
    return `${this.origin}/#${encodeURIComponent(JSON.stringify(setup))}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
