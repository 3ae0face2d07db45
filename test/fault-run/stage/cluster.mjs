import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Random } from "../random.mjs";
import { faketimeEnvironment } from "./faketime.mjs";
import { Gate } from "./gate.mjs";
import { Database, freePort } from "./postgres.mjs";
import { cleanEnvironment, Program } from "./program.mjs";

const SERVER = fileURLToPath(new URL("../../../server/bin/trunkline.js", import.meta.url));
const WORKLOAD = fileURLToPath(new URL("../workload/", import.meta.url));

/** Low, so that what goes wrong shows soon. */
const SERVER_FLAGS = ["--insecure", "--heartbeat-interval", "300ms", "--pool", "5", "--log-level", "warn"];
const ANSWERERS = 2;

/**
 * @typedef {object} ClusterOptions
 * @property {string} folder For histories, logs and clocks.
 * @property {import("./postgres.mjs").Postgres} postgres
 * @property {string} database Its name.
 * @property {import("../options.mjs").Options} options
 * @property {string | undefined} faketime
 * @property {(name: string, how: string) => void} onCrash
 */

/** Everything that runs in a fault run, and the networks in between. */
export class Cluster {
  /** Between each client and all nodes. @type {Map<string, Gate>} */
  front = new Map();
  /** Between each node and PostgreSQL. @type {Map<string, Gate>} */
  database = new Map();
  /** @type {Program[]} */
  nodes = [];
  /** @type {Program[]} */
  workers = [];
  /** @type {Program[]} */
  harnesses = [];
  /** @type {Program[]} */
  answerers = [];
  #settings;
  #random;
  /** @type {import("./gate.mjs").Target[]} */
  #targets = [];

  /** @param {ClusterOptions} settings */
  constructor(settings) {
    this.#settings = settings;
    mkdirSync(settings.folder, { recursive: true });
    this.#random = new Random(`${settings.options.seed}/gates`);
    this.postgres = settings.postgres;
    /** For looking, past all gates. */
    this.look = new Database(this.postgres.through(this.postgres.port, settings.database));
  }

  /** Starts everything; resolves when all is ready. */
  async start() {
    const { options } = this.#settings;
    for (let index = 0; index < options.nodes; index++) await this.#addNode(`node-${index + 1}`);
    this.workers = await this.#addClients("worker", options.workers);
    this.harnesses = await this.#addClients("harness", options.harnesses);
    this.answerers = await this.#addClients("answerer", ANSWERERS);
    // The first node makes the schema; all at once they would do so as well.
    await Promise.all(this.programs().map((program) => program.startForSure()));
  }

  /** All programs, servers first. */
  programs() {
    return [...this.nodes, ...this.workers, ...this.harnesses, ...this.answerers];
  }

  /** All networks. */
  gates() {
    return [...this.front.values(), ...this.database.values()];
  }

  /** @param {string} name */
  program(name) {
    const program = this.programs().find((each) => each.name === name);
    if (program === undefined) throw new Error(`there is no ${name}`);
    return program;
  }

  /** How often programs of each kind were started. */
  lives() {
    const sum = (/** @type {readonly Program[]} */ programs) =>
      programs.reduce((all, { life }) => all + life, 0);
    return {
      node: sum(this.nodes),
      worker: sum(this.workers),
      harness: sum(this.harnesses),
      answerer: sum(this.answerers),
    };
  }

  /** @param {string} program */
  clockFile(program) {
    return join(this.#settings.folder, `${program}.clock`);
  }

  /** @returns {import("../nemesis/plan.mjs").Topology} */
  topology() {
    const names = (/** @type {readonly Program[]} */ programs) => programs.map(({ name }) => name);
    return {
      nodes: names(this.nodes),
      workers: names(this.workers),
      harnesses: names(this.harnesses),
      answerers: names(this.answerers),
      ownPostgres: this.postgres.isOwn,
      faketime: this.#settings.faketime !== undefined,
    };
  }

  /** Ends some of the nodes' connections from PostgreSQL's side; how many. */
  async killBackends() {
    const rows = await this.look.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.5`,
    );
    return rows.length;
  }

  /** Has a fresh process read everything once more; resolves to whether it could. */
  async audit() {
    const [auditor] = await this.#addClients("auditor", 1);
    if (auditor === undefined) return false;
    // It is never ready, only over.
    await auditor.start();
    return auditor.lastStatus === 0;
  }

  /** Ends everything, whatever state it is in. */
  async stop() {
    await Promise.all(this.programs().map((program) => program.kill()));
    await this.look.close();
    await Promise.all(this.gates().map((gate) => gate.close()));
  }

  /** @param {string} name */
  async #addNode(name) {
    const { database, folder } = this.#settings;
    const gate = await this.#open(name, () => [{ name: "postgres", port: this.postgres.port }]);
    this.database.set(name, gate);
    const port = await freePort();
    this.#targets.push({ name, port });
    const env = this.#environment(name, { DATABASE_URL: this.postgres.through(gate.port, database) });
    this.nodes.push(
      this.#program(name, folder, () => ({
        args: [SERVER, "serve", ...SERVER_FLAGS, "--port", String(port)],
        env,
        channel: false,
      })),
    );
  }

  /**
   * @param {"worker" | "harness" | "answerer" | "auditor"} kind
   * @param {number} count
   */
  async #addClients(kind, count) {
    const { folder, options } = this.#settings;
    /** @type {Program[]} */
    const programs = [];
    for (let index = 0; index < count; index++) {
      const name = `${kind}-${index + 1}`;
      const gate = await this.#open(name, () => this.#targets);
      this.front.set(name, gate);
      const config = {
        ...{ name, index, count, folder, seed: options.seed },
        url: `http://127.0.0.1:${gate.port}`,
        ratePerSecond: options.calls / options.seconds / options.harnesses,
        maxCalls: Math.ceil(options.calls / options.harnesses),
      };
      const start = (/** @type {number} */ life) => ({
        args: [join(WORKLOAD, `${kind}.mjs`)],
        env: this.#environment(name, { FAULT_PROGRAM: JSON.stringify({ ...config, life }) }),
        channel: true,
      });
      programs.push(this.#program(name, folder, start));
    }
    return programs;
  }

  /**
   * @param {string} name
   * @param {NodeJS.ProcessEnv} own
   */
  #environment(name, own) {
    const { faketime } = this.#settings;
    const shifted = faketime === undefined ? {} : faketimeEnvironment(faketime, this.clockFile(name));
    return cleanEnvironment({ ...own, ...shifted });
  }

  /**
   * @param {string} name
   * @param {string} folder
   * @param {(life: number) => import("./program.mjs").Start} start
   */
  #program(name, folder, start) {
    const { onCrash } = this.#settings;
    return new Program({
      name,
      start,
      logFile: join(folder, `${name}.log`),
      onCrash: (how) => onCrash(name, how),
    });
  }

  /**
   * @param {string} name
   * @param {() => readonly import("./gate.mjs").Target[]} targets
   */
  #open(name, targets) {
    return new Gate({ name, targets, random: this.#random.fork(name) }).open();
  }
}
