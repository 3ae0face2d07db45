import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { cleanEnvironment, TestProcess } from "../support/child-process.js";
import { useDatabase } from "../support/database.js";
import { within } from "../support/until.js";

/** Runs what is built. */
const PROGRAM = fileURLToPath(new URL("./run.mjs", import.meta.url));
const LONGEST_MS = 180_000;
const INPUTS = 3_000;

const database = useDatabase();

async function fuzzRun(...flags: string[]): Promise<{ status: number | null; output: string }> {
  const child = spawn(process.execPath, [PROGRAM, ...flags], {
    env: cleanEnvironment({ DATABASE_URL: database.url }),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const running = new TestProcess(child);
  await using _ = running;
  const { status } = await within("the end of the fuzz run", running.ended, LONGEST_MS);
  return { status, output: output + running.stderr };
}

describe("a fuzz run", () => {
  test(
    "of a few thousand inputs finds a server that minds none of them",
    { timeout: LONGEST_MS },
    async () => {
      const { status, output } = await fuzzRun(
        "--inputs",
        String(INPUTS),
        "--seed",
        "smoke",
        "--settle",
        "2",
      );
      expect(output).toContain("no violation");
      expect(status).toBe(0);
      const [, inputs] = /^(\d+) inputs in/m.exec(output) ?? [];
      expect(Number(inputs)).toBeGreaterThanOrEqual(INPUTS);
    },
  );

  test("that is asked for something that cannot be says what can", async () => {
    const { status, output } = await fuzzRun("--inputs", "none");
    expect(status).toBe(2);
    expect(output).toContain('--inputs: "none"; allowed are whole numbers from 1 to 100000000');
  });
});
