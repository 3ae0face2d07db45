import { spawn, type ChildProcessByStdio } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { TestProcess } from "../../support/child-process.js";
import { until } from "../../support/until.js";

/** A program that reads what is typed, and everything that it printed. */
export class TypingProcess extends TestProcess {
  readonly #stdin: Writable;
  #stdout = "";

  protected constructor(child: ChildProcessByStdio<Writable, Readable, Readable>) {
    super(child);
    this.#stdin = child.stdin;
    child.stdin.on("error", () => undefined);
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.#stdout += text;
    });
  }

  /** Starts a command line in a folder. */
  static start(
    line: string,
    options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
  ): TypingProcess {
    return new TypingProcess(spawn("sh", ["-ec", line], { ...options, stdio: ["pipe", "pipe", "pipe"] }));
  }

  get stdout(): string {
    return this.#stdout;
  }

  type(text: string): void {
    this.#stdin.write(`${text}\n`);
  }

  /** Ctrl-D. */
  endInput(): void {
    this.#stdin.end();
  }
}

const DONE = "--done--";

/** A shell that stays open, so that what one command keeps in a variable is there for the next. */
export class Shell implements AsyncDisposable {
  readonly #process: TypingProcess;
  #read = 0;

  constructor(options: Parameters<typeof TypingProcess.start>[1]) {
    this.#process = TypingProcess.start("exec sh -e", options);
  }

  /** Runs commands; what they printed. Fails when one of them does. */
  async run(commands: string): Promise<string> {
    this.#process.type(`${commands}\necho ${DONE}`);
    const printed = (): string => this.#process.stdout.slice(this.#read);
    await until(`the end of \`${commands}\``, () => {
      const { isAlive, stderr } = this.#process;
      if (!isAlive) throw new Error(`a command failed: ${commands}\n${stderr}${printed()}`);
      return printed().endsWith(`${DONE}\n`);
    });
    const text = printed().slice(0, -DONE.length - 1);
    this.#read = this.#process.stdout.length;
    return text;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.endInput();
    await this.#process.kill();
  }
}
