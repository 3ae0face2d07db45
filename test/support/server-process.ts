import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { cleanEnvironment, TestProcess, type ProcessEnd } from "./child-process.js";
import { within } from "./until.js";

/** The program as it is installed; it needs the build, which `npm test` renews first. */
const PROGRAM = fileURLToPath(new URL("../../server/bin/trunkline.js", import.meta.url));

/** What a server process is started with. */
export interface ServerProcessOptions {
  readonly databaseUrl: string;
  /** Default: a free one, which it keeps across restarts. */
  readonly port?: number;
  /** Default 200 ms, so that leases can be short. */
  readonly heartbeatInterval?: string;
  /** More of its command line. */
  readonly flags?: readonly string[];
  /** More of its environment. */
  readonly env?: NodeJS.ProcessEnv;
}

/** A server in a process of its own, as `trunkline serve` starts it, on one port across its restarts. */
export class ServerProcess implements AsyncDisposable {
  readonly #options: ServerProcessOptions;
  #process: TestProcess | undefined;
  #port: number;
  #earlierLogs = "";

  private constructor(options: ServerProcessOptions) {
    this.#options = options;
    this.#port = options.port ?? 0;
  }

  /** Starts one; resolves when it serves. */
  static async start(options: ServerProcessOptions): Promise<ServerProcess> {
    const server = new ServerProcess(options);
    await server.start();
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get port(): number {
    return this.#port;
  }

  /** Everything that it logged, in all its lives. */
  get log(): string {
    return this.#earlierLogs + (this.#process?.stderr ?? "");
  }

  /** The lines of its log that tell of a fault of its own. */
  get faults(): string[] {
    return this.log.split("\n").filter((line) => line !== "" && !/^\{"level":[34]0\b/.test(line));
  }

  /** Starts it again, on the same port; resolves when it serves. */
  async start(): Promise<void> {
    const { databaseUrl, heartbeatInterval = "200ms", flags = [], env } = this.#options;
    const usual = ["--insecure", "--port", String(this.#port), "--heartbeat-interval", heartbeatInterval];
    const child = spawn(process.execPath, [PROGRAM, "serve", ...usual, ...flags], {
      env: cleanEnvironment({ DATABASE_URL: databaseUrl, ...env }),
      stdio: ["ignore", "pipe", "pipe"],
    });
    const started = new TestProcess(child);
    this.#process = started;
    const ready = await within(
      "the server's `ready`",
      Promise.race([readyUrl(child), started.ended.then(() => undefined)]),
      20_000,
    );
    if (ready === undefined) throw new Error(`the server did not start: ${started.stderr}`);
    this.#port = Number(new URL(ready).port);
  }

  signal(signal: NodeJS.Signals): void {
    if (this.#process !== undefined) process.kill(this.#process.pid, signal);
  }

  /** Stops it in its tracks (SIGSTOP), until {@link resume}. */
  pause(): void {
    this.#process?.pause();
  }

  resume(): void {
    this.#process?.resume();
  }

  /** Ends it without a last word (SIGKILL). */
  async kill(): Promise<void> {
    await this.#end((running) => running.kill());
  }

  /** Ends it as an operator does (SIGTERM). */
  async stop(): Promise<ProcessEnd | undefined> {
    return this.#end((running) => running.terminate());
  }

  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #end(how: (running: TestProcess) => Promise<ProcessEnd>): Promise<ProcessEnd | undefined> {
    const running = this.#process;
    if (running === undefined) return undefined;
    const end = await how(running);
    this.#earlierLogs += running.stderr;
    this.#process = undefined;
    return end;
  }
}

async function readyUrl({ stdout }: ChildProcess): Promise<string | undefined> {
  if (stdout === null) return undefined;
  for await (const line of createInterface({ input: stdout })) {
    const [, url] = /^ready (http\S+)$/.exec(line) ?? [];
    if (url !== undefined) return url;
  }
  return undefined;
}
