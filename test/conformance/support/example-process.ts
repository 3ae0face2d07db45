import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { cleanEnvironment, TestProcess } from "../../support/child-process.js";
import { until } from "../../support/until.js";
import { folderOf, type Example } from "./example-workers.js";

/** An example worker at work, with the tools of the conformance kit. */
export class ExampleProcess extends TestProcess {
  readonly #lines: string[] = [];

  constructor({ folder, worker: [program, ...args] }: Example, url: string, slots: number) {
    const child = spawn(program, args, {
      cwd: folderOf(folder),
      env: cleanEnvironment({
        TRUNKLINE_URL: url,
        TRUNKLINE_WORKER: folder,
        TRUNKLINE_CONCURRENCY: String(slots),
      }),
      stdio: ["ignore", "pipe", "pipe"],
    });
    super(child);
    createInterface({ input: child.stdout }).on("line", (line) => this.#lines.push(line));
  }

  /** How often the handler of a call was started. */
  starts(callId: string): number {
    return this.#lines.filter((line) => line.startsWith(`started ${callId} `)).length;
  }

  /** Resolves when the handler of a call runs. */
  async started(callId: string): Promise<void> {
    await until(`the handler of ${callId} runs`, () => this.starts(callId) > 0);
  }
}
