import { Writable } from "node:stream";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@trunkline/proto/health";
import { pino } from "pino";
import { sized } from "../../support/full-size.js";
import { startServer, type Server } from "../../../server/src/server.js";

/** How often heartbeats are due in these tests: outages can be short then. */
export const HEARTBEAT_MS = sized(200, 5_000);

/** What differs from server to server. */
export interface LoggedServerOptions {
  readonly databaseUrl: string;
  readonly maxConnections?: number;
  readonly heartbeatIntervalMs?: number;
}

/** A server in this process, of which every line of its log is kept. */
export class LoggedServer implements AsyncDisposable {
  /** What it logged, with when, by `performance.now()`. */
  readonly lines: readonly { readonly at: number; readonly text: string }[];
  readonly #server: Server;

  private constructor(server: Server, lines: LoggedServer["lines"]) {
    this.#server = server;
    this.lines = lines;
  }

  static async start(options: LoggedServerOptions): Promise<LoggedServer> {
    const lines: { readonly at: number; readonly text: string }[] = [];
    const sink = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        lines.push({ at: performance.now(), text: chunk.toString() });
        done();
      },
    });
    const server = await startServer({
      heartbeatIntervalMs: HEARTBEAT_MS,
      ...options,
      port: 0,
      rootKey: null,
      insecure: true,
      log: pino({ base: null }, sink),
    });
    return new LoggedServer(server, lines);
  }

  get url(): string {
    return this.#server.url;
  }

  /** The most lines that it logged within any second, from its line number `first` on. */
  mostLinesInOneSecond(first = 0): number {
    return Math.max(
      0,
      ...this.lines
        .slice(first)
        .map(({ at }) => this.lines.filter((line) => line.at >= at && line.at < at + 1_000).length),
    );
  }

  /** Whether its health service says that it serves. */
  async isServing(): Promise<boolean> {
    const health = createClient(Health, createGrpcTransport({ baseUrl: this.url }));
    return (await health.check({})).status === Status.SERVING;
  }

  /** What its health service tells whoever watches it, as it comes. */
  async *watchHealth(signal: AbortSignal): AsyncGenerator<boolean> {
    const health = createClient(Health, createGrpcTransport({ baseUrl: this.url }));
    try {
      for await (const { status } of health.watch({}, { signal })) yield status === Status.SERVING;
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop({ graceMs: 500 });
  }
}
