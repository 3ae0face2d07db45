import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { Worker } from "node:worker_threads";

const THREAD = new URL("./slow-line-thread.mjs", import.meta.url);

/** A line to PostgreSQL on which everything takes its time, in either direction. */
export class SlowLine implements AsyncDisposable {
  /** The database's connection string, by way of this line. */
  readonly url: string;
  readonly #thread: Worker;

  private constructor(url: string, thread: Worker) {
    this.url = url;
    this.#thread = thread;
  }

  /** @param latencyMs what a question and its answer take longer than without it */
  static async start(databaseUrl: string, latencyMs: number): Promise<SlowLine> {
    const url = new URL(databaseUrl);
    const workerData = { host: url.hostname, port: Number(url.port), delayMs: latencyMs / 2 };
    const thread = new Worker(THREAD, { workerData, execArgv: [] });
    // What the thread posts first.
    const [address] = (await once(thread, "message")) as [AddressInfo];
    url.hostname = "127.0.0.1";
    url.port = String(address.port);
    return new SlowLine(url.href, thread);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread.terminate();
  }
}
