import { spawn, type ChildProcess } from "node:child_process";
import { chmod, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { cleanEnvironment, TestProcess } from "../../support/child-process.js";
import { EventLog } from "../../support/event-log.js";
import { within } from "../../support/until.js";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
/** A command goes through `npx`, on a machine that has other things to do as well. */
const COMMAND_MS = 20_000;

/** What a command left behind. */
export interface CommandEnd {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface Line {
  readonly number: number;
  readonly text: string;
}

/** A command that was typed, and still runs. */
export class RunningCommand extends TestProcess {
  readonly #lines = new EventLog<Line>();
  readonly #command: string;

  /** @param child the leader of a process group of its own */
  constructor(child: ChildProcess, command: string) {
    super(child);
    this.#command = command;
    if (child.stdout === null) throw new Error("its output is not to be seen");
    const { stdout } = child;
    createInterface({ input: stdout }).on("line", (text) =>
      this.#lines.add({ number: this.lineCount, text }),
    );
  }

  /** The first line on standard output, after the first `skip`, that fits; it may have come already. */
  async line(pattern: RegExp, skip = 0): Promise<string> {
    const found = this.#lines.first(
      `${String(pattern)} of \`${this.#command}\``,
      ({ number, text }) => number >= skip && pattern.test(text),
      COMMAND_MS,
    );
    const early = this.ended.then(({ status }) => {
      throw new Error(`\`${this.#command}\` ended with ${String(status)}: ${this.stderr}`);
    });
    // Both may lose the race, and nobody is there to hear it.
    early.catch(() => undefined);
    found.catch(() => undefined);
    return (await Promise.race([found, early])).text;
  }

  /** How many lines it has written on standard output. */
  get lineCount(): number {
    return this.#lines.all.length;
  }

  /** Waits for its own end. */
  async end(): Promise<CommandEnd> {
    const { status } = await within(`the end of \`${this.#command}\``, this.ended, COMMAND_MS);
    return { status, stdout: this.#lines.all.map(({ text }) => `${text}\n`).join(""), stderr: this.stderr };
  }

  /** Ctrl-C: the terminal sends SIGINT to everything that the command has started. */
  interrupt(): void {
    process.kill(-this.pid, "SIGINT");
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    if (this.isAlive) process.kill(-this.pid, "SIGKILL");
    await this.ended;
  }
}

/** A folder like that of a reader who has installed the project, and a shell in it. */
export class Terminal implements AsyncDisposable {
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  readonly #commands = new Set<RunningCommand>();

  private constructor(folder: string, env: NodeJS.ProcessEnv) {
    this.folder = folder;
    this.env = env;
  }

  /** Makes one. Its servers listen on free ports. */
  static async open(): Promise<Terminal> {
    const folder = await mkdtemp(join(tmpdir(), "trunkline-test-docs-"));
    // As root, PostgreSQL runs under an account that must be able to get in; else its data is kept elsewhere.
    await chmod(folder, 0o755);
    await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
    // What `npm test` tells of this project must not help `npx`, which is not to look for updates either.
    const ours = Object.keys(process.env).filter((name) => /^(npm_|INIT_CWD$)/i.test(name));
    const unset = Object.fromEntries(ours.map((name) => [name, undefined]));
    return new Terminal(folder, { ...unset, TRUNKLINE_PORT: "0", NO_UPDATE_NOTIFIER: "1" });
  }

  /** Saves a file, as the document says. */
  async save(name: string, code: string): Promise<void> {
    await writeFile(join(this.folder, name), code);
  }

  /** Types a command. */
  start(command: string, env: NodeJS.ProcessEnv = {}): RunningCommand {
    // The shell makes way for the command, so that its end is the command's.
    const child = spawn("sh", ["-c", `exec env ${command}`], {
      cwd: this.folder,
      env: cleanEnvironment({ ...this.env, ...env }),
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    const running = new RunningCommand(child, command);
    this.#commands.add(running);
    void running.ended.then(() => this.#commands.delete(running));
    return running;
  }

  /** Types a command and waits for its end. */
  async run(command: string, env: NodeJS.ProcessEnv = {}): Promise<CommandEnd> {
    return this.start(command, env).end();
  }

  /** Ends what still runs, and removes the folder. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#commands].map((running) => running[Symbol.asyncDispose]()));
    await rm(this.folder, { recursive: true, force: true });
  }
}
