import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, test, type TestContext } from "vitest";

const EXAMPLE = fileURLToPath(new URL("../../examples/workers/python", import.meta.url));
const PROTO = fileURLToPath(new URL("../../proto", import.meta.url));
const TRUNKLINE = fileURLToPath(new URL("../../server/bin/trunkline.js", import.meta.url));

const PYTHON = ".venv/bin/python";
/** The first build fetches grpcio. */
const BUILD_MS = 600_000;
const TEST_MS = 180_000;

interface Ended {
  readonly status: number | string;
  readonly output: string;
}

/** Runs a command in the example's folder to its end. */
function run(command: string, ...args: readonly string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(command, args, { cwd: EXAMPLE, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : (error.code ?? error.signal ?? 1), output: stdout + stderr });
    });
  });
}

/** Fails with everything that the command has written. */
async function succeeds(command: string, ...args: readonly string[]): Promise<void> {
  const { status, output } = await run(command, ...args);
  expect(status, `${[command, ...args].join(" ")}\n${output}`).toBe(0);
}

/** Skips, and says why, where the example is not to be built or cannot be. */
async function needsPython({ skip }: TestContext): Promise<void> {
  skip(
    process.env["TRUNKLINE_POLYGLOT"] !== "1",
    "builds an example in Python: only with TRUNKLINE_POLYGLOT=1",
  );
  const { status } = await run(
    "python3",
    "-c",
    "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))",
  );
  if (status === 0) return;
  // The reporter does not show why a test was skipped.
  console.warn("skipped: there is no Python 3.11 or newer with venv and pip (`python3`)");
  skip("there is no Python 3.11 or newer with venv and pip");
}

describe("the example worker in Python", { concurrent: false }, () => {
  test("is built by the steps of its README", { timeout: BUILD_MS }, async (context) => {
    await needsPython(context);
    await succeeds("python3", "-m", "venv", ".venv");
    await succeeds(".venv/bin/pip", "install", "--quiet", "-r", "requirements.txt");
    const definitions = (await readdir(`${PROTO}/trunkline/v1`)).map(
      (name) => `${PROTO}/trunkline/v1/${name}`,
    );
    const outputs = ["--python_out=.", "--pyi_out=.", "--grpc_python_out=."];
    await succeeds(PYTHON, "-m", "grpc_tools.protoc", "-I", PROTO, ...outputs, ...definitions);
  });

  test("passes its own tests", { timeout: BUILD_MS }, async (context) => {
    await needsPython(context);
    await succeeds(PYTHON, "-m", "pytest");
  });

  test("passes every scenario of the conformance kit", { timeout: TEST_MS }, async (context) => {
    await needsPython(context);
    await succeeds(process.execPath, TRUNKLINE, "conformance", "--", PYTHON, "worker.py");
  });
});
