import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { short } from "./mismatch.js";

/** How a program ended. */
export interface ProgramEnd {
  /** Null when a signal ended it. */
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** What a {@link Program} tells. */
export interface ProgramEvents {
  onLine(line: string): void;
  onErrorLine(line: string): void;
  /** It has printed more than so many bytes, and nothing more is read of it. */
  onFlood(maxBytes: number): void;
  onExit(program: Program, end: ProgramEnd): void;
  /** There is no such program, or it may not be run. */
  onUnstartable(error: NodeJS.ErrnoException): void;
}

const LAST_WORDS = 8;
const WORDS_CHARACTERS = 1_000;
/** More than any log of a scenario; without a bound one program could fill the memory. */
const MOST_BYTES = 32 * 1024 * 1024;
const GROUPS = process.platform !== "win32";

const living = new Set<Program>();

// Whatever becomes of the kit, what it started does not outlive it.
process.once("exit", () => {
  for (const program of living) program.kill();
});

/** A worker's program, in a process group of its own, so that what it starts ends with it. */
export class Program {
  /** How it ended; undefined while it runs. */
  end: ProgramEnd | undefined;
  readonly #child: ChildProcess;
  readonly #lastWords: string[] = [];
  readonly #events: ProgramEvents;
  #printedBytes = 0;

  constructor(command: readonly string[], environment: NodeJS.ProcessEnv, events: ProgramEvents) {
    const [file = "", ...args] = command;
    const child = spawn(file, args, {
      env: environment,
      stdio: ["ignore", "pipe", "pipe"],
      detached: GROUPS,
    });
    this.#child = child;
    this.#events = events;
    living.add(this);
    child.once("error", (error) => {
      living.delete(this);
      if (child.pid === undefined) events.onUnstartable(error);
    });
    child.once("exit", (status, signal) => {
      this.end = { status, signal };
      events.onExit(this, this.end);
    });
    this.#readLines(child.stdout, (line) => events.onLine(line));
    this.#readLines(child.stderr, (line) => {
      this.#lastWords.push(short(line, WORDS_CHARACTERS));
      if (this.#lastWords.length > LAST_WORDS) this.#lastWords.shift();
      events.onErrorLine(line);
    });
  }

  /** What it wrote last on standard error. */
  get lastWords(): readonly string[] {
    return this.#lastWords;
  }

  /** Asks it to stop: SIGTERM, to the program alone. */
  terminate(): void {
    if (this.end === undefined) this.#child.kill("SIGTERM");
  }

  /** Ends it and all that it started, at once. */
  kill(): void {
    if (!living.delete(this)) return;
    const { pid } = this.#child;
    try {
      if (GROUPS && pid !== undefined) process.kill(-pid, "SIGKILL");
      else this.#child.kill("SIGKILL");
    } catch {
      // Nobody of the group is left.
    }
  }

  #readLines(stream: Readable, onLine: (line: string) => void): void {
    stream.on("error", () => undefined);
    // Counted before it is gathered to a line, which may never end.
    stream.on("data", ({ length }: Buffer) => {
      this.#printedBytes += length;
      if (this.#printedBytes <= MOST_BYTES || stream.destroyed) return;
      stream.destroy();
      this.#events.onFlood(MOST_BYTES);
    });
    createInterface({ input: stream, crlfDelay: Infinity }).on("line", onLine);
  }
}
