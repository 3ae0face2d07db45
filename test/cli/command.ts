import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { cleanEnvironment, TestProcess } from "../support/child-process.js";
import { until, within } from "../support/until.js";

/** The command as it is installed; it needs the build, which `npm test` renews first. */
const PROGRAM = fileURLToPath(new URL("../../server/bin/trunkline.js", import.meta.url));

/** How a command is started. */
export interface CommandOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** What it reads on standard input. Default: nothing. */
  readonly input?: string | Buffer;
  readonly cwd?: string;
}

/** What a command said, and its status. */
export interface CommandResult {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A `trunkline` that runs. */
export class RunningCommand extends TestProcess {
  readonly #child: ChildProcess;
  #stdout = "";

  constructor(args: readonly string[], { env = {}, input, cwd }: CommandOptions = {}) {
    const child = spawn(process.execPath, [PROGRAM, ...args], {
      env: cleanEnvironment(env),
      stdio: "pipe",
      ...(cwd !== undefined && { cwd }),
    });
    super(child);
    this.#child = child;
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.#stdout += text;
    });
    // A command that does not read it may be gone before it is written.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
  }

  get stdout(): string {
    return this.#stdout;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Stops reading what it says, as `head` does. */
  async stopReading(): Promise<void> {
    const { stdout } = this.#child;
    if (stdout === null || stdout.destroyed) return;
    stdout.destroy();
    await once(stdout, "close");
  }

  /** The URL after `ready`, once it serves. */
  async ready(): Promise<string> {
    const line = await until(
      "the first line of its output",
      () => {
        if (!this.isAlive) throw new Error(`it ended: ${this.stderr}`);
        return /^.*\n/.exec(this.#stdout)?.[0];
      },
      20_000,
    );
    const [, url] = /^ready (http\S+)\n$/.exec(line) ?? [];
    if (url === undefined) throw new Error(`not a ready line: ${line}`);
    return url;
  }
}

/** Runs a command to its end. */
export async function trunkline(
  args: readonly string[],
  options: CommandOptions = {},
): Promise<CommandResult> {
  await using command = new RunningCommand(args, options);
  const { status } = await within(`the end of trunkline ${args.join(" ")}`, command.ended, 20_000);
  return { status, stdout: command.stdout, stderr: command.stderr };
}
