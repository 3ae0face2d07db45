import { TrunklineError } from "@trunkline/sdk";
import { TOOLS } from "./tools.mjs";

/**
 * A run that takes calls.
 *
 * @typedef {object} MadeRun
 * @property {string} id
 * @property {boolean} toolset Whether it has one.
 * @property {number} turns So far.
 * @property {number} left How many calls it is still to take.
 */

const TOOLSET = "fault-run";
const SPARE_RUNS = 2;

/** Makes runs ahead of their use, and ends them in different ways: early, late, by TTL, never. */
export class RunMaker {
  #trunkline;
  #history;
  #random;
  #name;
  #calls;
  #count = 0;
  /** Keys of runs that are being made. @type {Set<string>} */
  #making = new Set();
  /** @type {MadeRun[]} */
  #ready = [];
  /** @type {Set<string>} */
  #ending = new Set();

  /**
   * @param {object} options
   * @param {import("@trunkline/sdk").Trunkline} options.trunkline
   * @param {import("../history.mjs").History} options.history
   * @param {import("../random.mjs").Random} options.random
   * @param {string} options.name Like that of no other harness, nor of another life of it.
   * @param {import("./calls.mjs").Calls} options.calls
   */
  constructor({ trunkline, history, random, name, calls }) {
    this.#trunkline = trunkline;
    this.#history = history;
    this.#random = random;
    this.#name = name;
    this.#calls = calls;
  }

  /** Runs that are being made or ended: until then nobody can say which there are. */
  get pending() {
    return this.#making.size + this.#ending.size;
  }

  waiting() {
    return [
      ...[...this.#making].map((key) => `the making of run ${key}`),
      ...[...this.#ending].map((id) => `the end of run ${id}`),
    ];
  }

  /** Declares the tools, in every life alike, which is one declaration. */
  async prepare() {
    const tools = Object.entries(TOOLS).map(([tool, { client, policy }]) => [
      tool,
      { description: tool, policy, executor: client ? "client" : "worker" },
    ]);
    await this.#trunkline.toolsets.put(TOOLSET, Object.fromEntries(tools));
  }

  /** The run that is to take the next call; undefined until there is one. */
  current() {
    const [first] = this.#ready;
    if (first !== undefined && first.left <= 0) {
      this.#ready.shift();
      this.#useUp(first);
    }
    while (this.#ready.length + this.#making.size < SPARE_RUNS) void this.#make();
    return this.#ready[0];
  }

  async #make() {
    const key = `${this.#name}-run-${++this.#count}`;
    this.#making.add(key);
    const ttlMs = this.#random.chance(0.07) ? this.#random.int(2_000, 8_000) : null;
    const toolset = this.#random.chance(0.7);
    const left = this.#random.int(20, 120);
    const labels = { harness: this.#name };
    this.#history.write({ type: "run-creating", key, ttlMs });
    try {
      const { id } = await this.#trunkline.runs.create({
        key,
        labels,
        namespace: `user-${this.#random.int(1, 5)}`,
        ...(toolset && { toolset: TOOLSET }),
        ...(ttlMs !== null && { ttl: `${ttlMs}ms` }),
      });
      this.#history.write({ type: "run-created", run: id, key });
      this.#ready.push({ id, toolset, turns: 0, left });
    } catch (error) {
      this.#refused("create run", key, error);
    } finally {
      this.#making.delete(key);
    }
  }

  /** @param {MadeRun} run */
  #useUp({ id }) {
    const fate = this.#random.next();
    if (fate < 0.15) void this.#end(id);
    else if (fate < 0.7) void this.#calls.allEnded(id).then(() => this.#end(id));
  }

  /** @param {string} run */
  async #end(run) {
    this.#ending.add(run);
    this.#history.write({ type: "run-ending", run });
    try {
      await this.#trunkline.runs.end(run);
      this.#history.write({ type: "run-ended", run });
    } catch (error) {
      this.#refused("end run", run, error);
    } finally {
      this.#ending.delete(run);
    }
  }

  /**
   * @param {string} what
   * @param {string} subject
   * @param {unknown} error
   */
  #refused(what, subject, error) {
    const reason = error instanceof TrunklineError ? error.reason : "EXCEPTION";
    this.#history.write({ type: "refused", what, subject, reason, message: String(error) });
  }
}
