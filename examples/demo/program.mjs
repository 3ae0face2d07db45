import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";

/** How long a program that was told to stop may take before it is killed. */
const STOP_MS = 15_000;
const KEPT_LINES = 40;

/**
 * How a program ended.
 *
 * @typedef {object} End
 * @property {number | null} status
 * @property {NodeJS.Signals | null} signal
 */

/** A program in a process of its own. */
export class Program {
  #child;
  #ending = false;
  /** @type {string[]} */
  #results = [];
  /** @type {string[]} */
  #lastLines = [];

  /**
   * @param {string} name
   * @param {readonly string[]} argv The program's file and its arguments.
   * @param {object} options
   * @param {NodeJS.ProcessEnv} options.env
   * @param {string} options.cwd
   * @param {(line: string) => void} options.onNote A line of standard error.
   * @param {(line: string) => void} [options.onResult] A line of standard output. Default: kept for `result`.
   * @param {(end: End) => void} options.onSurprise It ended although nobody asked it to.
   */
  constructor(name, argv, { env, cwd, onNote, onResult, onSurprise }) {
    this.name = name;
    // In a group of its own, so that Ctrl-C reaches the demo alone, which then stops everything in order.
    const [file = "", ...args] = argv;
    this.#child = spawn(file, args, { env, cwd, detached: true, stdio: "pipe" });
    /** @type {Promise<End>} */
    this.ended = once(this.#child, "close").then(
      ([status, signal]) => ({ status, signal }),
      // It could not be started.
      () => ({ status: null, signal: null }),
    );
    void this.ended.then((end) => {
      if (!this.#ending) onSurprise(end);
    });
    // Written to after its end: its end is what is reported.
    this.#child.stdin.on("error", () => undefined);
    this.#read(this.#child.stderr, onNote);
    this.#read(this.#child.stdout, onResult ?? ((line) => this.#results.push(line)));
  }

  get pid() {
    return this.#child.pid ?? 0;
  }

  /** Whether it has not ended. */
  get runs() {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** The last lines that it wrote, for when something went wrong. */
  get lastLines() {
    return this.#lastLines;
  }

  /** @returns {string | undefined} The next line of standard output that nobody has taken, if there is one. */
  takeResult() {
    return this.#results.shift();
  }

  /** @param {string} line */
  write(line) {
    this.#child.stdin.write(`${line}\n`);
  }

  /** Says that nothing more will be written, upon which the program is expected to end by itself. */
  finish() {
    this.#ending = true;
    this.#child.stdin.end();
  }

  /** Says that the program is expected to end by itself. */
  mayEnd() {
    this.#ending = true;
  }

  /**
   * Kills it, without a last word.
   *
   * @returns {Promise<End>}
   */
  async kill() {
    this.#ending = true;
    // The whole group, should it have started something itself.
    this.#signal("SIGKILL", -this.pid);
    return this.ended;
  }

  /**
   * Asks it to stop, and kills it when it does not.
   *
   * @returns {Promise<End>}
   */
  async stop() {
    this.#ending = true;
    this.#signal("SIGTERM", this.pid);
    const timer = new AbortController();
    const late = delay(STOP_MS, "late", { signal: timer.signal }).catch(() => "stopped");
    const first = await Promise.race([this.ended, late]);
    timer.abort();
    return first === "late" ? this.kill() : this.ended;
  }

  /**
   * @param {NodeJS.Signals} signal
   * @param {number} target A process, or less than 0: a group.
   */
  #signal(signal, target) {
    if (target === 0 || !this.runs) return;
    process.kill(target, signal);
  }

  /**
   * @param {import("node:stream").Readable} stream
   * @param {(line: string) => void} onLine
   */
  #read(stream, onLine) {
    createInterface({ input: stream }).on("line", (line) => {
      this.#lastLines = [...this.#lastLines, line].slice(-KEPT_LINES);
      onLine(line);
    });
  }
}
