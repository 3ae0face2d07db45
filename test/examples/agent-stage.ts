import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runExample, startExample, type ExampleProgram } from "./example-program.js";
import type { Random } from "../fault-run/random.mjs";

const KILL_SELF = new URL("./kill-self.mjs", import.meta.url).href;

/** What every session of these tests asks. */
export const REQUEST = "To Bergen tomorrow, and back.";

/** How one life of an engine ended. */
export interface Life {
  /** Whether it was killed; else it came to its end. */
  readonly killed: boolean;
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
}

/** Where a life of an engine ends: at a callback of its event loop, or after a while; or by itself. */
export type Death = { readonly atCallback: number } | { readonly afterMs: number } | undefined;

/** The programs of `examples/agent` against a server, with tools and a model that take no time. */
export class AgentStage implements AsyncDisposable {
  readonly folder: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #programs = new Set<ExampleProgram>();
  #workers = 0;
  #worker: ExampleProgram | undefined;

  private constructor(url: string, folder: string) {
    this.folder = folder;
    this.#env = {
      ...{ TRUNKLINE_URL: url, AGENT_DIR: folder, EVIDENCE_DIR: join(folder, "evidence"), AGENT_MODEL: "" },
      ...{ THINK_MS: "20", TRAINS_MS: "150", LOOK_EVERY_MS: "50" },
      ...{ HEARTBEAT_TIMEOUT: "1s", DETACH_GRACE: "100ms" },
    };
  }

  /** With nobody there yet. */
  static async on(url: string): Promise<AgentStage> {
    return new AgentStage(url, await mkdtemp(join(tmpdir(), "trunkline-test-agent-")));
  }

  /** Starts a worker, in the place of the one before. */
  async startWorker(): Promise<void> {
    this.#worker = this.#start("worker.mjs", `desk-${++this.#workers}`);
    await this.#worker.line("takes calls");
  }

  /** Kills the worker, without a last word. */
  async killWorker(): Promise<void> {
    this.#worker?.child.kill("SIGKILL");
    await this.#worker?.ended;
  }

  /** Has people there who answer at once. */
  async startPeople(): Promise<void> {
    await this.#start("people.mjs").line("there");
  }

  /** Starts an engine on a session, as it is, for the test to wait for. */
  startEngine(session: string, env: Readonly<Record<string, string>> = {}): ExampleProgram {
    return startExample("agent/engine.mjs", [session, REQUEST], { ...this.#env, ...env });
  }

  /** Starts an engine on a session, and lets it live so long. */
  async life(session: string, death?: Death): Promise<Life> {
    const killAt = death !== undefined && "atCallback" in death ? String(death.atCallback) : "0";
    const engine = this.startEngine(session, { NODE_OPTIONS: `--import ${KILL_SELF}`, KILL_AT: killAt });
    const late = death !== undefined && "afterMs" in death ? death.afterMs : undefined;
    const timer = late === undefined ? undefined : setTimeout(() => engine.child.kill("SIGKILL"), late);
    const end = await engine.ended;
    clearTimeout(timer);
    const { stdout, stderr } = engine;
    if (end !== 0 && end !== "SIGKILL") throw new Error(`the engine ended with ${end}: ${stderr.join("\n")}`);
    return { killed: end === "SIGKILL", stdout, stderr };
  }

  /** Has a session checked; what the checker says, with each fault. */
  async check(session: string, other?: string): Promise<string> {
    const args = [session, ...(other === undefined ? [] : [other])];
    const { stdout, stderr } = await runExample("agent/check-transcript.mjs", args, this.#env);
    return [...stderr, ...stdout].join("\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const programs = [...this.#programs];
    for (const { child } of programs) child.kill("SIGTERM");
    await Promise.all(programs.map(({ ended }) => ended));
    await rm(this.folder, { recursive: true, force: true });
  }

  #start(file: string, ...args: string[]): ExampleProgram {
    const program = startExample(`agent/${file}`, args, this.#env);
    this.#programs.add(program);
    return program;
  }
}

/** How many callbacks a life had, that came to its end. */
export function callbacksOf({ stderr }: Life): number {
  const count = stderr.findLast((line) => line.startsWith("callbacks: "))?.split(" ")[1];
  return Number(count);
}

/** Where to kill next: mostly at a callback within the first half of a life, so that a session takes several. */
export function nextDeath(random: Random, undisturbed: { callbacks: number; ms: number }): Death {
  if (random.chance(0.25)) return { afterMs: Math.round(random.next() * undisturbed.ms) };
  return { atCallback: 1 + Math.floor((random.next() * undisturbed.callbacks) / 2) };
}
