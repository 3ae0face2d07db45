import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RunningCommand, trunkline } from "./command.js";
import { until } from "../support/until.js";

const SDK = fileURLToPath(new URL("../../examples/workers/sdk/worker.mjs", import.meta.url));

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "trunkline-conformance-"));
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

const conformance = (...args: readonly string[]) => trunkline(["conformance", ...args]);

describe.concurrent("what cannot be run is refused, with status 2", () => {
  test.each<[string[], string]>([
    [[], "COMMAND: is missing; give the worker's program after --"],
    [["--only", "27", "--", "worker"], '--only: "27"; allowed: numbers from 1 to 26; see --list'],
    [["--only", "hello", "--", "worker"], '--only: "hello"; allowed: numbers of scenarios'],
    [["--only", "", "--", "worker"], '--only: ""; allowed: numbers of scenarios'],
    [["--jobs", "0", "--", "worker"], '--jobs: "0"; allowed are whole numbers from 1 to 64'],
    [["--", "/no/such/worker"], 'COMMAND: cannot start "/no/such/worker" (there is no such program)'],
    [["--report", "/no/such/folder/x", "--", "node"], '--report: cannot write "/no/such/folder/x"'],
    [["--url", "http://x", "--", "node"], "--url: is for commands that talk to a server, and conformance"],
  ])("%j", async (args, message) => {
    const { status, stdout, stderr } = await conformance(...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toMatch(/^error: .*\n$/);
    expect(stderr).toContain(message);
  });

  test("a file after --json, which takes none, is explained", async () => {
    const { status, stderr } = await conformance("--json", "results.json", "--", "node");
    expect(status).toBe(2);
    expect(JSON.parse(stderr).error.message).toContain("--json takes no file, --report does");
  });
});

test.concurrent("--list shows the scenarios, and runs nothing", async ({ expect }) => {
  const { status, stdout } = await conformance("--list");
  expect(status).toBe(0);
  expect(stdout).toMatch(/^NO\. {2}SCENARIO\n1 {4}hello\n[^]*\n26 {3}oversized result\n$/);
});

test.concurrent(
  "a worker that passes is shown, written to the report, and the status is 0",
  async ({ expect }) => {
    const report = join(folder, "report.json");
    const args = ["--only", "3,2", "--report", report, "--", process.execPath, SDK];
    const { status, stdout } = await conformance(...args);
    expect(stdout).toMatch(
      /^passed {2}2 {2}answer +\d\.\d s\npassed {2}3 {2}failure +\d\.\d s\n2 of 2 scenarios passed\n$/,
    );
    expect(status).toBe(0);
    expect(JSON.parse(await readFile(report, "utf8"))).toMatchObject({
      passed: 2,
      failed: 0,
      scenarios: [
        { number: 2, title: "answer", passed: true },
        { number: 3, title: "failure", passed: true },
      ],
    });
  },
);

test.concurrent(
  "a program that prints nothing fails, with what had to come, what came, and the last frames",
  async ({ expect }) => {
    const silent = join(folder, "silent.mjs");
    await writeFile(silent, `console.log = () => {}; await import(${JSON.stringify(SDK)});`);
    const { status, stdout } = await conformance("--only", "2", "--", process.execPath, silent);
    expect(status).toBe(1);
    expect(stdout).toMatch(/^FAILED {2}2 {2}answer +\d\.\d s\n {4}expected: the program to print `started /);
    expect(stdout).toContain("it has printed no such line so far: is it flushed?");
    expect(stdout).toMatch(/#1 → answers \[claim-1 result {"say":"hello"}\], grant 1\n/);
    expect(stdout).toMatch(/\n0 of 1 scenarios passed; failed: 2\n$/);
  },
);

test.concurrent(
  "a program that exits at once fails, in a document for machines, with its last words",
  async ({ expect }) => {
    const script = "console.error('bye'); process.exit(7)";
    const { status, stdout } = await conformance(
      "--json",
      "--only",
      "1,2",
      "--",
      process.execPath,
      "-e",
      script,
    );
    expect(status).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      passed: 0,
      failed: 2,
      scenarios: [
        { number: 1, passed: false, came: "it ended with status 7; its last words: bye", lastWords: ["bye"] },
        { number: 2, passed: false },
      ],
    });
  },
);

test.concurrent(
  "--verbose shows frames and lines as they come, and Ctrl-C ends the run with status 1",
  async () => {
    await using command = new RunningCommand([
      "conformance",
      "--verbose",
      "--only",
      "6,14",
      "--",
      process.execPath,
      SDK,
    ]);
    await until(
      "a frame",
      () => command.stderr.includes(" 6   ") && command.stderr.includes("#1 → deferrals"),
    );
    expect(command.stderr).toMatch(/^ 6 +\d\.\d{3} #1 → hello session .* slots 4 claims \[\]$/m);
    command.signal("SIGINT");
    expect(await command.ended).toEqual({ status: 1, signal: null });
    expect(command.stdout).toContain("came:     an interruption\n");
    expect(command.stdout).toMatch(/\n0 of 2 scenarios passed; failed: 6, 14\n$/);
  },
);
