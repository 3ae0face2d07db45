import { spawn } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { cleanEnvironment, TestProcess } from "../support/child-process.js";
import { until, within } from "../support/until.js";

/** Runs what is built; `npm test` builds first. */
const PROGRAM = fileURLToPath(new URL("./run.mjs", import.meta.url));
const LONGEST_MS = 120_000;
const FOLDER = /trunkline-fault-\w{6}/;

function faultRun(...flags: string[]): { process: TestProcess; output: () => string } {
  const child = spawn(process.execPath, [PROGRAM, ...flags], {
    env: cleanEnvironment(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const running = new TestProcess(child);
  return { process: running, output: () => output + running.stderr };
}

/** The processes that have the folder of a run in their command line or their environment. */
async function processesOf(folder: string): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const texts = await Promise.all(
    pids.flatMap((pid) =>
      ["cmdline", "environ"].map(async (file) => {
        const text = await readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "");
        return text.includes(folder) ? Number(pid) : undefined;
      }),
    ),
  );
  return [...new Set(texts.filter((pid) => pid !== undefined))];
}

describe("a fault run", () => {
  test(
    "of a few seconds, with two nodes and one fault after the other, finds nothing wrong",
    { timeout: LONGEST_MS },
    async () => {
      const flags = ["--seconds", "5", "--calls", "500", "--nodes", "2"];
      flags.push("--workers", "2", "--harnesses", "1");
      const { process: running, output } = faultRun(...flags, "--seed", "smoke");
      await using _ = running;
      const { status } = await within("the end of the fault run", running.ended, LONGEST_MS);
      expect(output()).toContain("no violation");
      expect(output()).toMatch(/\d+ faults/);
      expect(status).toBe(0);
    },
  );

  test.runIf(process.platform === "linux").each(["SIGINT", "SIGKILL"] as const)(
    "that is ended by %s leaves nothing running",
    { timeout: LONGEST_MS },
    async (signal) => {
      const { process: running, output } = faultRun("--seconds", "60", "--nodes", "1", "--workers", "1");
      await using _ = running;
      // The driver names its folder when everything has started.
      const [folder] = await until("the folder's name", () => FOLDER.exec(output()));
      expect((await processesOf(folder)).length).toBeGreaterThan(4);
      process.kill(running.pid, signal);
      await until("nothing of it is running", async () => (await processesOf(folder)).length === 0);
    },
  );

  test("that is asked for something that cannot be says what can", async () => {
    const { process: running, output } = faultRun("--nodes", "0");
    await using _ = running;
    expect(await running.ended).toMatchObject({ status: 2 });
    expect(output()).toContain('--nodes: "0"; allowed are whole numbers from 1 to 20');
  });
});
