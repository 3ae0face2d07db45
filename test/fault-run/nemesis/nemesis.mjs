import { shiftClock } from "../stage/faketime.mjs";

/** @typedef {import("./plan.mjs").Fault} Fault */
/** @typedef {import("../stage/cluster.mjs").Cluster} Cluster */
/** @typedef {import("../stage/program.mjs").Program} Program */

const SLOW_MS = 150;

/** Brings about the faults of a plan. */
export class Nemesis {
  #cluster;
  #history;
  #over = false;
  /** @type {Set<Promise<void>>} */
  #running = new Set();
  /** Ends of pauses. @type {Set<() => void>} */
  #pauses = new Set();

  /**
   * @param {Cluster} cluster
   * @param {import("../history.mjs").History} history
   */
  constructor(cluster, history) {
    this.#cluster = cluster;
    this.#history = history;
  }

  /**
   * Goes through a plan in its time, or until it is stopped.
   *
   * @param {readonly Fault[]} plan
   * @param {number} durationMs
   */
  async rage(plan, durationMs) {
    const began = performance.now();
    for (const fault of plan) {
      await this.#pause(fault.atMs - (performance.now() - began));
      if (this.#over) break;
      const done = this.#bring(fault).finally(() => this.#running.delete(done));
      this.#running.add(done);
    }
    await this.#pause(durationMs - (performance.now() - began));
  }

  /** Ends all faults and waits until everything runs again. */
  async heal() {
    this.stop();
    const cluster = this.#cluster;
    for (const gate of cluster.gates()) gate.heal();
    for (const program of cluster.programs()) program.resume();
    await Promise.all(this.#running);
    for (const gate of cluster.gates()) gate.heal();
    await cluster.postgres.settled();
    await Promise.all(cluster.programs().map((program) => program.startForSure()));
    this.#history.write({ type: "healed" });
  }

  /** Brings about nothing more. */
  stop() {
    this.#over = true;
    for (const end of this.#pauses) end();
  }

  /**
   * @param {number} ms
   * @returns {Promise<void>}
   */
  #pause(ms) {
    if (this.#over || ms <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#pauses.delete(end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      this.#pauses.add(end);
    });
  }

  /** @param {Fault} fault */
  async #bring(fault) {
    const { kind, target } = fault;
    try {
      switch (kind) {
        case "kill-all-nodes":
          return void (await Promise.all(this.#cluster.nodes.map((node) => this.#kill(fault, node))));
        case "kill-all-workers":
          return void (await Promise.all(this.#cluster.workers.map((worker) => this.#kill(fault, worker))));
        case "kill-backends":
          return void (await this.#killBackends(fault));
        case "shift-clock":
          return this.#shift(fault);
      }
      if (kind.endsWith("-postgres") || kind.startsWith("restart-postgres"))
        return void (await this.#postgres(fault));
      if (/^(cut|hole|slow|isolate)-/.test(kind)) return void (await this.#network(fault));
      const program = this.#cluster.program(target);
      if (kind.startsWith("kill-")) await this.#kill(fault, program);
      else if (kind.startsWith("term-")) await this.#terminate(fault, program);
      else await this.#pauseProgram(fault, program);
    } catch (error) {
      this.#skipped(fault, String(error));
    }
  }

  /**
   * @param {Fault} fault
   * @param {Program} program
   */
  async #kill(fault, program) {
    if (!program.isRunning) return this.#skipped(fault, `${program.name} is down`);
    this.#did(fault, program.name, `back in ${fault.ms ?? 0} ms`);
    await program.kill();
    await this.#startLater(fault, program);
  }

  /**
   * @param {Fault} fault
   * @param {Program} program
   */
  async #terminate(fault, program) {
    if (!program.isRunning || program.isPaused) return this.#skipped(fault, `${program.name} is not at work`);
    this.#did(fault, program.name, `back ${fault.ms ?? 0} ms after its end`);
    if (!(await program.stop()))
      this.#history.write({ type: "crashed", name: program.name, how: "did not stop" });
    await this.#startLater(fault, program);
  }

  /**
   * @param {Fault} fault
   * @param {Program} program
   */
  async #startLater(fault, program) {
    await this.#pause(fault.ms ?? 0);
    await program.startForSure();
  }

  /**
   * @param {Fault} fault
   * @param {Program} program
   */
  async #pauseProgram(fault, program) {
    if (!program.isRunning || program.isPaused) return this.#skipped(fault, `${program.name} is not at work`);
    const { life } = program;
    this.#did(fault, program.name, `for ${fault.ms ?? 0} ms`);
    program.pause();
    await this.#pause(fault.ms ?? 0);
    if (program.life === life) program.resume();
  }

  /** @param {Fault} fault */
  async #postgres(fault) {
    const { postgres } = this.#cluster;
    const { kind, ms = 0 } = fault;
    this.#did(fault, "postgres", `${ms} ms`);
    if (kind === "pause-postgres") await postgres.freeze(ms);
    else if (kind === "kill-postgres") await postgres.restart("SIGKILL", ms);
    else await postgres.restart(kind === "restart-postgres-fast" ? "SIGINT" : "SIGQUIT", ms);
  }

  /** @param {Fault} fault */
  async #killBackends(fault) {
    const count = await this.#cluster.killBackends();
    this.#did(fault, "postgres", `${count} connections`);
  }

  /** @param {Fault} fault */
  #shift(fault) {
    const { target, seconds = 0 } = fault;
    shiftClock(this.#cluster.clockFile(target), seconds);
    this.#did(fault, target, `by ${seconds} s`);
  }

  /** @param {Fault} fault */
  async #network(fault) {
    const { kind, ms = 0, how = "rst", direction = "both", lose = false } = fault;
    const { gates, concerns } = this.#concerned(fault);
    if (kind.startsWith("cut-")) {
      const count = gates.reduce((sum, gate) => sum + gate.cut(how, concerns), 0);
      return this.#did(fault, fault.target, `${how}, ${count} connections`);
    }
    const slow = kind.startsWith("slow-");
    /** @type {Set<"up" | "down">} */
    const holds = new Set(slow ? [] : direction === "both" ? ["up", "down"] : [direction]);
    const trouble = { concerns, holds, delayMs: slow ? SLOW_MS : 0 };
    const count = gates.reduce((sum, gate) => sum + gate.begin(trouble), 0);
    const what = slow
      ? `${SLOW_MS} ms late`
      : `black hole ${direction}, ${lose ? "lost" : "let go"} after it`;
    this.#did(fault, fault.target, `${what}, for ${ms} ms, ${count} connections`);
    await this.#pause(ms);
    for (const gate of gates) gate.end(trouble, lose && !slow);
  }

  /**
   * Which connections a fault of the network is about.
   *
   * @param {Fault} fault
   */
  #concerned({ kind, target, node }) {
    const { front, database } = this.#cluster;
    const all = () => true;
    /** @param {string} name */
    const one = (name) => (/** @type {string} */ other) => other === name;
    const of = (/** @type {Map<string, import("../stage/gate.mjs").Gate>} */ gates) => {
      const gate = gates.get(target);
      return gate === undefined ? [] : [gate];
    };
    if (kind.endsWith("-client")) return { gates: of(front), concerns: all };
    if (kind.endsWith("-link")) return { gates: of(front), concerns: one(node ?? "") };
    if (kind.endsWith("-database")) return { gates: of(database), concerns: all };
    if (kind === "isolate-node") {
      const from = one(target);
      // The gate of its own to the database has one target, which is not a node.
      return {
        gates: [...front.values(), ...of(database)],
        concerns: (/** @type {string} */ other) => from(other) || other === "postgres",
      };
    }
    return { gates: [...front.values()], concerns: one(target) };
  }

  /**
   * @param {Fault} fault
   * @param {string} target
   * @param {string} detail
   */
  #did({ kind }, target, detail) {
    this.#history.write({ type: "fault", kind, target, detail });
  }

  /**
   * @param {Fault} fault
   * @param {string} why
   */
  #skipped({ kind }, why) {
    this.#history.write({ type: "skipped", kind, why });
  }
}
