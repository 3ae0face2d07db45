import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { within } from "./until.js";

/** How a process ended. */
export interface ProcessEnd {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
}

const living = new Set<ChildProcess>();

// Whatever becomes of the tests, what they started does not outlive them.
process.once("exit", () => {
  for (const child of living) child.kill("SIGKILL");
});

/** The environment of a process that a test starts: ours, without what the test runner and the user's shell set. */
export function cleanEnvironment(extra: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const foreign = /^(VITEST|NODE_|TRUNKLINE_|DATABASE_URL$|TEST$|DEV$|PROD$|MODE$|SSR$)/;
  const kept = Object.entries(process.env).filter(([name]) => !foreign.test(name));
  return { ...Object.fromEntries(kept), ...extra };
}

/** A process that a test started, and what can be done to it. */
export class TestProcess implements AsyncDisposable {
  readonly pid: number;
  /** Resolves when it has ended and everything that it wrote has been read. */
  readonly ended: Promise<ProcessEnd>;
  readonly #child: ChildProcess;
  #stderr = "";
  #paused = false;

  constructor(child: ChildProcess) {
    if (child.pid === undefined) throw new Error("the process could not be started");
    this.pid = child.pid;
    this.#child = child;
    living.add(child);
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
    });
    this.ended = once(child, "close").then(([status, signal]) => {
      living.delete(child);
      // What Node documents of the event.
      return { status: status as number | null, signal: signal as NodeJS.Signals | null };
    });
  }

  /** What it wrote on standard error so far. */
  get stderr(): string {
    return this.#stderr;
  }

  /** Whether it is still there. */
  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Ends it as the machine's failure would (SIGKILL); resolves when it is gone. */
  async kill(): Promise<ProcessEnd> {
    if (this.isAlive) this.#child.kill("SIGKILL");
    return within(`the end of process ${this.pid}`, this.ended);
  }

  /** Asks it to stop (SIGTERM); resolves when it is gone. */
  async terminate(withinMs = 15_000): Promise<ProcessEnd> {
    this.resume();
    if (this.isAlive) this.#child.kill("SIGTERM");
    return within(`the end of process ${this.pid} after SIGTERM`, this.ended, withinMs);
  }

  /** Stops it in its tracks (SIGSTOP): its sockets stay open, and nobody answers on them. */
  pause(): void {
    this.#paused = true;
    this.#child.kill("SIGSTOP");
  }

  /** Lets it go on (SIGCONT). */
  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#child.kill("SIGCONT");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}
