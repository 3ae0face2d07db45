import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test, type TestContext } from "vitest";

const EXAMPLE = fileURLToPath(new URL("../../examples/workers/grpc-js", import.meta.url));
const TRUNKLINE = fileURLToPath(new URL("../../server/bin/trunkline.js", import.meta.url));

/** The first build fetches grpc-js and the compiler. */
const BUILD_MS = 300_000;
const TEST_MS = 180_000;

/** Runs a command in the example's folder; fails with everything that it has written. */
async function succeeds(command: string, ...args: readonly string[]): Promise<void> {
  const ended = await new Promise<string>((resolve) => {
    execFile(command, args, { cwd: EXAMPLE, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      const status = error === null ? 0 : (error.code ?? error.signal ?? 1);
      resolve(status === 0 ? "ok" : `${status}\n${stdout}${stderr}`);
    });
  });
  expect(ended, [command, ...args].join(" ")).toBe("ok");
}

/** Skips, and says why. Its toolchain is the one that runs this test. */
function needsTime({ skip }: TestContext): void {
  skip(
    process.env["TRUNKLINE_POLYGLOT"] !== "1",
    "builds an example on grpc-js: only with TRUNKLINE_POLYGLOT=1",
  );
}

describe("the example worker on grpc-js", { concurrent: false }, () => {
  test("is built by the steps of its README", { timeout: BUILD_MS }, async (context) => {
    needsTime(context);
    await succeeds("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund");
    await succeeds("npm", "run", "build");
  });

  test("passes its own tests", { timeout: BUILD_MS }, async (context) => {
    needsTime(context);
    await succeeds("npm", "test");
  });

  test("passes every scenario of the conformance kit", { timeout: TEST_MS }, async (context) => {
    needsTime(context);
    await succeeds(process.execPath, TRUNKLINE, "conformance", "--", process.execPath, "dist/main.js");
  });
});
