import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test, type TestContext } from "vitest";

const EXAMPLE = fileURLToPath(new URL("../../examples/workers/rust", import.meta.url));
const TRUNKLINE = fileURLToPath(new URL("../../server/bin/trunkline.js", import.meta.url));

const WORKER = "./target/release/trunkline-worker";
/** The first build compiles tonic and what it stands on. */
const BUILD_MS = 900_000;
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
async function needsRust({ skip }: TestContext): Promise<void> {
  skip(
    process.env["TRUNKLINE_POLYGLOT"] !== "1",
    "builds an example in Rust: only with TRUNKLINE_POLYGLOT=1",
  );
  const { status } = await run("cargo", "--version");
  if (status === 0) return;
  // The reporter does not show why a test was skipped.
  console.warn("skipped: there is no Rust toolchain (`cargo --version` does not run)");
  skip("there is no Rust toolchain");
}

describe("the example worker in Rust", { concurrent: false }, () => {
  test("is built by the steps of its README", { timeout: BUILD_MS }, async (context) => {
    await needsRust(context);
    await succeeds("cargo", "build", "--release", "--locked");
  });

  test("passes its own tests", { timeout: BUILD_MS }, async (context) => {
    await needsRust(context);
    await succeeds("cargo", "test", "--release", "--locked");
  });

  test("passes every scenario of the conformance kit", { timeout: TEST_MS }, async (context) => {
    await needsRust(context);
    await succeeds(process.execPath, TRUNKLINE, "conformance", "--", WORKER);
  });
});
