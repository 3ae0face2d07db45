import { chmod, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Trunkline } from "@trunkline/sdk";
import { Program } from "./program.mjs";
import { until } from "./until.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** What `npx trunkline` runs. */
const TRUNKLINE = join(ROOT, "node_modules", "trunkline", "bin", "trunkline.js");

/** Low, so that the story need not wait long until the dead are missed. In production: 5 s, 60 s and 10 s. */
const HEARTBEAT_INTERVAL = "300ms";
const HEARTBEAT_TIMEOUT = "2s";
const DETACH_GRACE = "1s";

/** The first start makes a database. */
const START_MS = 60_000;
const WAIT_MS = 20_000;
const GONE_MS = 10_000;

/**
 * The programs that the demo runs, the server among them, and the folder in which they leave what they write.
 * Everything that is started here is ended by {@link Stage.clear}, however the story ends.
 */
export class Stage {
  #terminal;
  #troupe;
  #story;
  /** @type {Promise<never>} */
  #interrupted;
  /** @type {Set<Program>} */
  #programs = new Set();
  /** @type {Set<number>} */
  #postgresPids = new Set();
  /** @type {Program | undefined} */
  #server;
  #port = 0;
  /** @type {Trunkline | undefined} */
  #client;
  /** @type {Map<string, string>} The language of each worker, by its name. */
  #languages = new Map();
  /** @type {(Program | undefined)[]} The worker that has each place in the shop. */
  #places = [];
  #hired = 0;

  /**
   * @param {import("./terminal.mjs").Terminal} terminal
   * @param {string} folder
   * @param {import("./troupe.mjs").Troupe} troupe
   * @param {AbortController} story Aborted when the story is not to go on; whatever it waits for fails then.
   */
  constructor(terminal, folder, troupe, story) {
    this.#terminal = terminal;
    this.#troupe = troupe;
    this.#story = story;
    this.folder = folder;
    this.#interrupted = new Promise((_, reject) => {
      story.signal.addEventListener("abort", () => reject(story.signal.reason));
    });
    // Nobody may be waiting when it happens.
    this.#interrupted.catch(() => undefined);
  }

  /**
   * Makes a stage with an empty temporary folder.
   *
   * @param {import("./terminal.mjs").Terminal} terminal
   * @param {import("./troupe.mjs").Troupe} troupe
   * @param {AbortController} story As for the constructor.
   */
  static async build(terminal, troupe, story) {
    const folder = await mkdtemp(join(tmpdir(), "trunkline-demo-"));
    // As root, PostgreSQL runs under an account that must be able to get in; it guards its own folder.
    await chmod(folder, 0o755);
    return new Stage(terminal, folder, troupe, story);
  }

  get ledgerFile() {
    return join(this.folder, "shop", "ledger.jsonl");
  }

  get inboxFolder() {
    return join(this.folder, "shop", "inbox");
  }

  get jobsFolder() {
    return join(this.folder, "jobs");
  }

  /** The demo's own client: it looks, as an operator would. */
  get client() {
    if (this.#client === undefined) throw new Error("the server was not started");
    return this.#client;
  }

  /**
   * Starts the server; again, on the same port and the same data.
   *
   * @returns {Promise<Program>}
   */
  async startServer() {
    const args = ["dev", "--port", `${this.#port}`, "--heartbeat-interval", HEARTBEAT_INTERVAL];
    this.#terminal.act(`npx trunkline ${args.join(" ")}`);
    // Its notes are for operators; they are shown when something goes wrong.
    const server = this.#start("server", [process.execPath, TRUNKLINE, ...args], {
      onNote: () => undefined,
    });
    this.#server = server;
    const url = await this.result(server, START_MS, (line) => /^ready (http:\S+)$/.exec(line)?.[1]);
    this.#terminal.relay("server", `ready ${url}  (process ${server.pid})`);
    this.#port = Number(new URL(url).port);
    this.#client ??= new Trunkline({ url, retryFor: "5s", onWarning: () => undefined });
    for (const pid of await this.#findPostgres()) this.#postgresPids.add(pid);
    return server;
  }

  /** Stops the server, and PostgreSQL with it. */
  async stopServer() {
    return this.#server?.stop();
  }

  /** The last lines of the server's log. */
  get serverLog() {
    return this.#server?.lastLines ?? [];
  }

  get url() {
    return `http://127.0.0.1:${this.#port}`;
  }

  get postgresRuns() {
    return [...this.#postgresPids].some(isAlive);
  }

  /**
   * Starts a program of the examples in Node; what it notes on standard error is shown.
   *
   * @param {string} name
   * @param {string} file From `examples/`.
   * @param {string[]} [args]
   */
  startProgram(name, file, args = []) {
    return this.#start(name, this.#showCommand([process.execPath, join(ROOT, "examples", file), ...args]));
  }

  /**
   * Starts a worker for each place in the shop that has none, or a dead one: it writes the language of the place.
   *
   * @returns {Promise<readonly Program[]>} The shop's workers.
   */
  async fillPlaces() {
    const filled = this.#troupe.languages.map(async (language, place) => {
      const worker = this.#places[place];
      if (worker?.runs === true) return worker;
      const name = this.#troupe.nameOf(language, ++this.#hired);
      return (this.#places[place] = await this.startWorker(name, language, "shop"));
    });
    return Promise.all(filled);
  }

  /** The shop's workers that have not ended. */
  get shopWorkers() {
    return this.#places.flatMap((worker) => (worker?.runs === true ? [worker] : []));
  }

  /**
   * The language of a worker.
   *
   * @param {string} name
   */
  languageOf(name) {
    const language = this.#languages.get(name);
    if (language === undefined) throw new Error(`no worker ${name} was started`);
    return language;
  }

  /**
   * Starts a worker, and waits until it runs; all that it says is shown.
   *
   * @param {string} name
   * @param {string} language
   * @param {"shop" | "reports"} part
   */
  async startWorker(name, language, part) {
    let runs = false;
    this.#languages.set(name, language);
    const { argv, cwd } = this.#troupe.command(language, part, name);
    const worker = this.#start(name, this.#showCommand(argv), {
      ...(cwd !== undefined && { cwd }),
      onResult: (line) => {
        this.#terminal.relay(name, runs ? line : `${line}  (process ${worker.pid})`);
        runs = true;
      },
    });
    await this.until(`${name} takes calls`, () => runs || undefined);
    return worker;
  }

  /**
   * The program of this name that was started last.
   *
   * @param {string} name
   */
  program(name) {
    const found = [...this.#programs].findLast((program) => program.name === name);
    if (found === undefined) throw new Error(`no program ${name} was started`);
    return found;
  }

  /**
   * Waits for something that a program does, unless the story is over before.
   *
   * @template T
   * @param {Promise<T>} event
   * @returns {Promise<T>}
   */
  async meanwhile(event) {
    const seen = await Promise.race([event, this.#interrupted]);
    this.#story.signal.throwIfAborted();
    return seen;
  }

  /** The programs that have not ended. */
  runningPrograms() {
    return [...this.#programs].filter(({ pid }) => isAlive(-pid));
  }

  /**
   * Looks until there is something to see, or the story is over.
   *
   * @template T
   * @param {string} what
   * @param {() => Promise<T | undefined> | T | undefined} look
   * @param {number} [timeoutMs]
   */
  until(what, look, timeoutMs = WAIT_MS) {
    return until(what, look, { signal: this.#story.signal, timeoutMs });
  }

  /**
   * Waits for the next line on a program's standard output, and reads it.
   *
   * @template T
   * @param {Program} program
   * @param {number} timeoutMs
   * @param {(line: string) => T | undefined} read
   * @returns {Promise<T>}
   */
  async result(program, timeoutMs, read) {
    const line = await this.until(`what ${program.name} answers`, () => program.takeResult(), timeoutMs);
    const value = read(line);
    if (value === undefined) throw new Error(`${program.name} printed "${line}"`);
    return value;
  }

  /**
   * Waits for a program's next result, a line of JSON.
   *
   * @param {Program} program
   * @returns {Promise<any>} As the program that printed it documents.
   */
  jsonResult(program) {
    return this.result(program, WAIT_MS, (line) => JSON.parse(line));
  }

  /**
   * Ends whatever still runs and removes the folder. Again, it finds nothing to do.
   *
   * @returns {Promise<string[]>} What could not be ended or removed.
   */
  async clear() {
    await this.#client?.close();
    const others = [...this.#programs].filter((program) => program !== this.#server);
    // Those that could finish what they do have been asked to before, or the story has ended early.
    await Promise.all(others.map((program) => program.kill()));
    await this.#server?.stop();
    await this.#endPostgres();
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
    return this.leftovers();
  }

  /** @returns {Promise<string[]>} What of this stage still runs or exists. */
  async leftovers() {
    const left = this.runningPrograms().map(({ name, pid }) => `${name} (process ${pid})`);
    for (const pid of this.#postgresPids) if (isAlive(pid)) left.push(`PostgreSQL (process ${pid})`);
    const entries = await readdir(this.folder).catch(() => undefined);
    if (entries !== undefined) left.push(this.folder);
    return left;
  }

  /**
   * @param {string} name
   * @param {readonly string[]} argv
   * @param {{ cwd?: string, onNote?: (line: string) => void, onResult?: (line: string) => void }} [options]
   */
  #start(name, argv, { cwd = this.folder, onNote, onResult } = {}) {
    this.#story.signal.throwIfAborted();
    const program = new Program(name, argv, {
      ...{ cwd, env: this.#environment() },
      onNote: onNote ?? ((line) => this.#terminal.relay(name, line)),
      ...(onResult && { onResult }),
      onSurprise: ({ status, signal }) => {
        this.#story.abort(new Error(`${name} ended by itself, with ${signal ?? `status ${status}`}`));
      },
    });
    this.#programs.add(program);
    return program;
  }

  /**
   * @param {readonly string[]} argv
   * @returns {readonly string[]} The same.
   */
  #showCommand(argv) {
    const shown = argv.map((arg) => (arg === process.execPath ? "node" : arg.replace(ROOT, "")));
    this.#terminal.act(shown.join(" "));
    return argv;
  }

  /** The user's environment without what would lead programs to another server or database. */
  #environment() {
    const ours = /^(TRUNKLINE_|DATABASE_URL$|PG|SHOP$|NODE_OPTIONS$)/;
    const kept = Object.entries(process.env).filter(([name]) => !ours.test(name));
    return {
      ...Object.fromEntries(kept),
      TRUNKLINE_URL: this.url,
      HEARTBEAT_TIMEOUT,
      DETACH_GRACE,
      STATE_DIR: join(this.folder, "shop"),
      JOBS_DIR: this.jobsFolder,
      DATA_DIR: join(ROOT, "examples", "host-tools", "data"),
      CRM_DELAY_MS: "200",
      // Long enough to be killed in.
      BANK_CONFIRM_MS: "30000",
    };
  }

  /** Should the server have died without stopping it. Its lock file is gone once it has ended in order. */
  async #endPostgres() {
    for (const signal of /** @type {const} */ (["SIGINT", "SIGQUIT", "SIGKILL"])) {
      const running = (await this.#findPostgres()).filter(isAlive);
      if (running.length === 0) return;
      for (const pid of running) process.kill(pid, signal);
      await until("PostgreSQL's end", () => !running.some(isAlive) || undefined, {
        signal: new AbortController().signal,
        timeoutMs: GONE_MS,
      }).catch(() => undefined);
    }
  }

  /** @returns {Promise<number[]>} The process that holds the data folder, if there is one. */
  async #findPostgres() {
    const files = await readdir(this.folder, { recursive: true }).catch(() => []);
    const locks = files.filter((file) => file.endsWith("postmaster.pid"));
    const texts = await Promise.all(
      locks.map((file) => readFile(join(this.folder, file), "utf8").catch(() => "")),
    );
    return texts.map((text) => Number.parseInt(text, 10)).filter((pid) => pid > 1);
  }
}

/** @param {number} pid Of a process, or less than 0: of a group. */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "EPERM";
  }
}
