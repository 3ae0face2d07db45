import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test, type TestContext } from "vitest";

/*
 * The example workers in other languages: built by the steps of their READMEs, tested by their own tests, and put
 * through the conformance kit. That takes minutes, so it is `npm run test:long`, which verify and CI run.
 */

type Command = readonly [program: string, ...args: string[]];

interface Example {
  readonly language: string;
  /** In `examples/workers`. */
  readonly folder: string;
  /** Ends with 0 where the example can be built. */
  readonly toolchain: Command;
  /** What is missing where it does not. */
  readonly needs: string;
  readonly build: readonly Command[];
  readonly tests: readonly Command[];
  readonly worker: Command;
}

const PROTO = fileURLToPath(new URL("../../proto", import.meta.url));
const TRUNKLINE = fileURLToPath(new URL("../../server/bin/trunkline.js", import.meta.url));
const PYTHON = ".venv/bin/python";
const definitions = readdirSync(`${PROTO}/trunkline/v1`).map((name) => `${PROTO}/trunkline/v1/${name}`);

const EXAMPLES: readonly Example[] = [
  {
    language: "Go",
    folder: "go",
    toolchain: ["go", "version"],
    needs: "Go",
    build: [
      ["go", "generate", "."],
      ["go", "build", "-o", "worker", "."],
    ],
    tests: [
      ["go", "test", "./..."],
      ["go", "vet", "./..."],
    ],
    worker: ["./worker"],
  },
  {
    language: "Python",
    folder: "python",
    toolchain: ["python3", "-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"],
    needs: "Python 3.11 with venv and pip",
    build: [
      ["python3", "-m", "venv", ".venv"],
      [".venv/bin/pip", "install", "--quiet", "-r", "requirements.txt"],
      [
        ...([PYTHON, "-m", "grpc_tools.protoc", "-I", PROTO] as const),
        ...["--python_out=.", "--pyi_out=.", "--grpc_python_out=.", ...definitions],
      ],
    ],
    tests: [[PYTHON, "-m", "pytest"]],
    worker: [PYTHON, "worker.py"],
  },
  {
    language: "TypeScript on grpc-js",
    folder: "grpc-js",
    toolchain: ["npm", "--version"],
    needs: "npm",
    build: [
      ["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund"],
      ["npm", "run", "build"],
    ],
    tests: [["npm", "test"]],
    worker: [process.execPath, "dist/main.js"],
  },
  {
    language: "Java",
    folder: "java",
    toolchain: ["mvn", "--batch-mode", "--version"],
    needs: "Maven on a JDK of 17 or newer",
    build: [["mvn", "--batch-mode", "--no-transfer-progress", "-DskipTests", "package"]],
    tests: [["mvn", "--batch-mode", "--no-transfer-progress", "test"]],
    worker: ["java", "-jar", "target/worker.jar"],
  },
  {
    language: "Rust",
    folder: "rust",
    toolchain: ["cargo", "--version"],
    needs: "Rust",
    build: [["cargo", "build", "--release", "--locked"]],
    tests: [["cargo", "test", "--release", "--locked"]],
    worker: ["target/release/trunkline-worker"],
  },
];

/** A first build fetches and compiles everything. */
const BUILD_MS = 900_000;
const TEST_MS = 180_000;

/** Where the toolchain is missing, CI fails; others are told why it is skipped. */
async function needsToolchain({ skip }: TestContext, { folder, toolchain, needs }: Example): Promise<void> {
  if ((await run(folder, toolchain)).status === 0) return;
  const why = `there is no ${needs} (${toolchain.join(" ")})`;
  if ((process.env["CI"] ?? "") !== "") throw new Error(why);
  // The reporter does not show why a test was skipped.
  console.warn(`skipped: ${why}`);
  skip(why);
}

/** Runs a command in the example's folder to its end. */
function run(folder: string, [program, ...args]: Command): Promise<{ status: unknown; output: string }> {
  const cwd = fileURLToPath(new URL(`../../examples/workers/${folder}`, import.meta.url));
  return new Promise((resolve) => {
    execFile(program, args, { cwd, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : (error.code ?? error.signal), output: stdout + stderr });
    });
  });
}

/** Fails with everything that the command has written. */
async function succeed(folder: string, commands: readonly Command[]): Promise<void> {
  for (const command of commands) {
    const { status, output } = await run(folder, command);
    expect(status, `${command.join(" ")}\n${output}`).toBe(0);
  }
}

describe.each(EXAMPLES)("the example worker in $language", { concurrent: false }, (example) => {
  const { folder, build, tests, worker } = example;

  test("is built by the steps of its README", { timeout: BUILD_MS }, async (context) => {
    await needsToolchain(context, example);
    await succeed(folder, build);
  });

  test("passes its own tests", { timeout: BUILD_MS }, async (context) => {
    await needsToolchain(context, example);
    await succeed(folder, tests);
  });

  test("passes every scenario of the conformance kit", { timeout: TEST_MS }, async (context) => {
    await needsToolchain(context, example);
    await succeed(folder, [[process.execPath, TRUNKLINE, "conformance", "--", ...worker]]);
  });
});
