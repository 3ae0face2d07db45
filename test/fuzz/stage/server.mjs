import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createInterface } from "node:readline";
import { cleanEnvironment } from "../../fault-run/stage/program.mjs";
import { ROOT_KEY } from "./credentials.mjs";

const PROGRAM = fileURLToPath(new URL("../../../server/bin/trunkline.js", import.meta.url));
const CENSUS = new URL("../../support/census-preload.mjs", import.meta.url).href;
const PULSE = new URL("./pulse-preload.mjs", import.meta.url).href;
const CENSUS_MS = 10_000;
const STOP_MS = 15_000;
/** Lines of a log at the level of a warning, or below. */
const HARMLESS = /^\{"level":[1234]0\b/;
const LISTENING = "0A";
/** The inode of a connection that no process has. */
const OF_THE_KERNEL = "0";

/**
 * What a process holds: see census-preload.mjs.
 *
 * @typedef {{ timers: number, handles: number, descriptors: number, heapBytes: number, rssBytes: number }} Census
 */

/** How long an event loop stood still, and how much of that its process computed. @typedef {{ stalledMs: number, cpuMs: number }} Stall */

/** The server under test, in a process of its own. */
export class FuzzedServer {
  #child;
  #censusFile;
  #pulseFile;
  #taken = 0;
  port = 0;
  /** @type {string[]} */
  log = [];
  /** How it ended; undefined while it runs. @type {string | undefined} */
  end;
  #ended;

  /**
   * @param {string} folder
   * @param {string} databaseUrl
   * @param {boolean} verbose
   */
  constructor(folder, databaseUrl, verbose) {
    this.#censusFile = join(folder, "census");
    this.#pulseFile = join(folder, "pulse");
    const flags = ["--port", "0", "--heartbeat-interval", "1s", "--log-level", "debug"];
    const child = spawn(
      process.execPath,
      ["--import", CENSUS, "--import", PULSE, PROGRAM, "serve", ...flags],
      {
        env: cleanEnvironment({
          DATABASE_URL: databaseUrl,
          TRUNKLINE_ROOT_KEY: ROOT_KEY,
          CENSUS_FILE: this.#censusFile,
          PULSE_FILE: this.#pulseFile,
        }),
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    this.#child = child;
    createInterface({ input: child.stderr }).on("line", (line) => {
      this.log.push(line);
      if (verbose) console.log(`server: ${line}`);
    });
    this.#ended = new Promise((resolve) => {
      child.once("exit", (status, signal) => {
        this.end = signal ?? `status ${status ?? "unknown"}`;
        resolve(undefined);
      });
    });
  }

  /** Resolves when it serves. */
  async ready() {
    for await (const line of createInterface({ input: this.#child.stdout })) {
      const [, port] = /^ready http:\/\/\S+:(\d+)$/.exec(line) ?? [];
      if (port !== undefined) {
        this.port = Number(port);
        return;
      }
    }
    throw new Error(`the server did not start: ${this.log.join("\n")}`);
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The lines of its log that tell of a fault of its own. */
  get faults() {
    return this.log.filter((line) => line !== "" && !HARMLESS.test(line));
  }

  /** What it holds now, without garbage; undefined where it has ended. */
  async census() {
    const number = this.#taken++;
    this.#child.kill("SIGUSR2");
    const giveUpAt = performance.now() + CENSUS_MS;
    while (this.end === undefined && performance.now() < giveUpAt) {
      const line = readText(this.#censusFile).split("\n")[number];
      if (line?.endsWith("}") === true) return /** @type {Census} */ (JSON.parse(line));
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return undefined;
  }

  /** Each time that its event loop stood still, the longest first. @returns {Stall[]} */
  stalls() {
    const lines = readText(this.#pulseFile).split("\n").filter(Boolean);
    return lines.map((line) => /** @type {Stall} */ (JSON.parse(line))).sort((a, b) => b.cpuMs - a.cpuMs);
  }

  /**
   * Connections of clients that it has, in whatever state. One that it has closed is the kernel's, which waits for a
   * minute for the client to do so too.
   */
  sockets() {
    const port = this.port.toString(16).toUpperCase().padStart(4, "0");
    return readText("/proc/net/tcp")
      .split("\n")
      .map((line) => line.trim().split(/\s+/))
      .filter(
        ([, local, , state, , , , , , inode]) =>
          local?.endsWith(`:${port}`) === true && state !== LISTENING && inode !== OF_THE_KERNEL,
      ).length;
  }

  /** Ends it as an operator does; how it ended. */
  async stop() {
    if (this.end === undefined) {
      const timer = setTimeout(() => this.#child.kill("SIGKILL"), STOP_MS);
      this.#child.kill("SIGTERM");
      await this.#ended;
      clearTimeout(timer);
    }
    return this.end;
  }

  /** Ends it without a last word. */
  async kill() {
    this.#child.kill("SIGKILL");
    if (this.end === undefined) await once(this.#child, "exit");
  }
}

/** @param {string} file */
function readText(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
