import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test, type TestContext } from "vitest";

const EXAMPLE = fileURLToPath(new URL("../../examples/workers/java", import.meta.url));
const TRUNKLINE = fileURLToPath(new URL("../../server/bin/trunkline.js", import.meta.url));

/** The first build fetches Maven's plugins, grpc-java and protoc. */
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

/** Whether Maven runs, and on a JDK that can compile for Java 17. */
async function hasToolchain(): Promise<boolean> {
  const { status, output } = await run("mvn", "--batch-mode", "--version");
  const version = /Java version: (\d+)/.exec(output)?.[1];
  return status === 0 && Number(version ?? 0) >= 17;
}

/** Skips, and says why, where the example is not to be built or cannot be. */
async function needsJava({ skip }: TestContext): Promise<void> {
  skip(
    process.env["TRUNKLINE_POLYGLOT"] !== "1",
    "builds an example in Java: only with TRUNKLINE_POLYGLOT=1",
  );
  if (await hasToolchain()) return;
  // The reporter does not show why a test was skipped.
  console.warn("skipped: there is no Maven on a JDK of 17 or newer (`mvn --version`)");
  skip("there is no Maven on a JDK of 17 or newer");
}

describe("the example worker in Java", { concurrent: false }, () => {
  test(
    "is built by the steps of its README, and passes its own tests",
    { timeout: BUILD_MS },
    async (context) => {
      await needsJava(context);
      await succeeds("mvn", "--batch-mode", "--no-transfer-progress", "package");
    },
  );

  test("passes every scenario of the conformance kit", { timeout: TEST_MS }, async (context) => {
    await needsJava(context);
    await succeeds(process.execPath, TRUNKLINE, "conformance", "--", "java", "-jar", "target/worker.jar");
  });
});
