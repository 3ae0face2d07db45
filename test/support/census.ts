import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ServerProcess, type ServerProcessOptions } from "./server-process.js";
import { until } from "./until.js";

const PRELOAD = new URL("./census-preload.mjs", import.meta.url).href;

/** What a process holds. */
export interface Census {
  /** Timers that were set and have neither fired nor been cleared. */
  readonly timers: number;
  /** Sockets and servers. */
  readonly handles: number;
  /** Open files, sockets among them. */
  readonly descriptors: number;
  /** After a collection of garbage. */
  readonly heapBytes: number;
  readonly rssBytes: number;
}

/** A server process that can be asked what it holds. */
export class CountedServer implements AsyncDisposable {
  readonly server: ServerProcess;
  readonly #folder: string;
  #taken = 0;

  private constructor(server: ServerProcess, folder: string) {
    this.server = server;
    this.#folder = folder;
  }

  static async start(options: ServerProcessOptions): Promise<CountedServer> {
    const folder = await mkdtemp(join(tmpdir(), "trunkline-census-"));
    const env = { NODE_OPTIONS: `--import ${PRELOAD}`, CENSUS_FILE: join(folder, "census") };
    return new CountedServer(await ServerProcess.start({ ...options, env }), folder);
  }

  /** What it holds now. */
  async take(): Promise<Census> {
    const number = this.#taken++;
    this.server.signal("SIGUSR2");
    const line = await until("the census", async () => {
      const text = await readFile(join(this.#folder, "census"), "utf8").catch(() => "");
      return text.endsWith("\n") ? text.split("\n")[number] : undefined;
    });
    // As the preloaded program writes it.
    return JSON.parse(line) as Census;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }
}
