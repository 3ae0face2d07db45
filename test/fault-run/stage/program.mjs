import { spawn } from "node:child_process";
import { once } from "node:events";
import { openSync, closeSync } from "node:fs";

/** How long something that was asked to stop may take; a worker waits for a server that takes its answers. */
const STOP_MS = 30_000;

/**
 * @typedef {object} Start
 * @property {readonly string[]} args Of Node.
 * @property {NodeJS.ProcessEnv} env
 * @property {boolean} channel Whether it is told things, and tells some.
 */

/**
 * A program of the fault run through all its lives: it is killed, stopped and started again, and nobody else
 * starts it. What it writes on standard error is in a file.
 */
export class Program {
  #start;
  #logFile;
  #onCrash;
  /** @type {import("node:child_process").ChildProcess | undefined} */
  #child;
  #ready = Promise.resolve(false);
  #paused = false;
  /** Whether its end was brought about by us. */
  #ending = false;
  life = 0;
  /** Whether its present life has said that its work is done. */
  done = false;
  /** How its last life ended; null when by a signal, or not yet. @type {number | null} */
  lastStatus = null;

  /**
   * @param {object} options
   * @param {string} options.name
   * @param {(life: number) => Start} options.start
   * @param {string} options.logFile
   * @param {(how: string) => void} options.onCrash It ended by itself after it had been ready.
   */
  constructor({ name, start, logFile, onCrash }) {
    this.name = name;
    this.#start = start;
    this.#logFile = logFile;
    this.#onCrash = onCrash;
  }

  get isRunning() {
    return this.#child !== undefined;
  }

  get isPaused() {
    return this.#paused;
  }

  get pid() {
    return this.#child?.pid;
  }

  /** Starts its next life, unless it has one; resolves to whether it got ready. */
  start() {
    if (this.#child !== undefined) return this.#ready;
    this.life++;
    this.done = false;
    this.#ending = false;
    const { args, env, channel } = this.#start(this.life);
    const log = openSync(this.#logFile, "a");
    const child = spawn(process.execPath, args, {
      env,
      stdio: ["ignore", "pipe", log, channel ? "ipc" : "ignore"],
    });
    closeSync(log);
    this.#child = child;
    this.#ready = this.#watch(child);
    return this.#ready;
  }

  /**
   * @param {import("node:child_process").ChildProcess} child
   * @returns {Promise<boolean>} Whether it got ready.
   */
  #watch(child) {
    return new Promise((resolve) => {
      let ready = false;
      const isReady = () => {
        ready = true;
        resolve(true);
      };
      // Servers say so on standard output, our own programs over the channel.
      child.stdout?.on("data", (bytes) => {
        if (String(bytes).startsWith("ready ")) isReady();
      });
      child.on("message", (/** @type {{ type: string }} */ message) => {
        if (message.type === "ready") isReady();
        if (message.type === "done" && this.#child === child) this.done = true;
      });
      child.on("error", () => undefined);
      child.once("exit", (status, signal) => {
        if (this.#child === child) {
          this.#child = undefined;
          this.#paused = false;
          this.lastStatus = status;
        }
        resolve(false);
        if (ready && !this.#ending && !this.done) this.#onCrash(signal ?? `status ${status ?? 0}`);
      });
    });
  }

  /** Starts it, as often as it takes. */
  async startForSure() {
    while (!(await this.start())) await new Promise((resolve) => setTimeout(resolve, 200));
  }

  /** @param {Record<string, unknown>} message */
  tell(message) {
    if (this.#child?.connected) this.#child.send(message, () => undefined);
  }

  /** Ends it without a last word. */
  async kill() {
    await this.#end("SIGKILL");
  }

  /**
   * Asks it to stop, and kills it when it does not in time; resolves to whether that was not needed. Another
   * fault may kill it meanwhile.
   */
  async stop() {
    const child = this.#child;
    let inTime = true;
    const timer = setTimeout(() => {
      inTime = false;
      child?.kill("SIGKILL");
    }, STOP_MS);
    await this.#end("SIGTERM");
    clearTimeout(timer);
    return inTime;
  }

  pause() {
    if (this.#child === undefined || this.#paused) return;
    this.#paused = true;
    this.#child.kill("SIGSTOP");
  }

  resume() {
    if (!this.#paused) return;
    this.#paused = false;
    this.#child?.kill("SIGCONT");
  }

  /** @param {NodeJS.Signals} signal */
  async #end(signal) {
    const child = this.#child;
    if (child === undefined) return;
    this.#ending = true;
    const exited = once(child, "exit");
    child.kill(signal);
    this.resume();
    await exited;
  }
}

/** @param {NodeJS.ProcessEnv} extra */
export function cleanEnvironment(extra) {
  const foreign = /^(VITEST|NODE_|TRUNKLINE_|DATABASE_URL$|PG|TEST$|DEV$|PROD$|MODE$|SSR$)/;
  const kept = Object.entries(process.env).filter(([name]) => !foreign.test(name));
  return { ...Object.fromEntries(kept), ...extra };
}
