import { tmpdir } from "node:os";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { Program } from "./program.mjs";

/** A program that says that it is ready, and lives until it is killed. */
const STUBBORN = `process.on("SIGTERM", () => undefined); setInterval(() => undefined, 60_000); console.log("ready now");`;

describe("a program of a fault run", () => {
  test("that is killed while it is asked to stop has not failed to stop", async () => {
    const folder = mkdtempSync(join(tmpdir(), "trunkline-program-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const crashes: string[] = [];
    const program = new Program({
      name: "stubborn",
      start: () => ({ args: ["-e", STUBBORN], env: process.env, channel: false }),
      logFile: join(folder, "stubborn.log"),
      onCrash: (how: string) => crashes.push(how),
    });
    expect(await program.start()).toBe(true);
    const stopped = program.stop();
    await program.kill();
    expect(await stopped).toBe(true);
    expect(crashes).toEqual([]);
  });
});
