import { execFile } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, type TestContext } from "vitest";

/** A program and its arguments, for a folder. */
export type Command = readonly [program: string, ...args: string[]];

/** A worker in `examples/workers`. */
export interface Example {
  readonly language: string;
  /** In `examples/workers`. */
  readonly folder: string;
  /** Ends with 0 where the example can be built. */
  readonly toolchain: Command;
  /** What is missing where it does not. */
  readonly needs: string;
  readonly build: readonly Command[];
  /** What is there, in its folder, when it was built. */
  readonly built: string;
  readonly tests: readonly Command[];
  readonly worker: Command;
}

const PROTO = fileURLToPath(new URL("../../../proto", import.meta.url));
const PYTHON = ".venv/bin/python";
const definitions = readdirSync(`${PROTO}/trunkline/v1`).map((name) => `${PROTO}/trunkline/v1/${name}`);

/** Those that are built; the SDK's worker is not among them. */
export const EXAMPLES: readonly Example[] = [
  {
    language: "Go",
    folder: "go",
    toolchain: ["go", "version"],
    needs: "Go",
    build: [
      ["go", "generate", "."],
      ["go", "build", "-o", "worker", "."],
      ["go", "build", "-o", "demo/worker", "./demo"],
    ],
    built: "demo/worker",
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
    built: "trunkline/v1/worker_pb2_grpc.py",
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
    built: "dist/main.js",
    tests: [["npm", "test"]],
    worker: [process.execPath, "dist/main.js"],
  },
  {
    language: "Java",
    folder: "java",
    toolchain: ["mvn", "--batch-mode", "--version"],
    needs: "Maven on a JDK of 17 or newer",
    build: [["mvn", "--batch-mode", "--no-transfer-progress", "-DskipTests", "package"]],
    built: "target/worker.jar",
    tests: [["mvn", "--batch-mode", "--no-transfer-progress", "test"]],
    worker: ["java", "-jar", "target/worker.jar"],
  },
  {
    language: "Rust",
    folder: "rust",
    toolchain: ["cargo", "--version"],
    needs: "Rust",
    build: [["cargo", "build", "--release", "--locked"]],
    built: "target/release/trunkline-worker",
    tests: [["cargo", "test", "--release", "--locked"]],
    worker: ["target/release/trunkline-worker"],
  },
];

/** Whether an example can be built here. Where not, CI fails; others are told why its tests are skipped. */
export async function hasToolchain({ folder, toolchain, needs }: Example): Promise<boolean> {
  if ((await run(folder, toolchain)).status === 0) return true;
  const why = `there is no ${needs} (${toolchain.join(" ")})`;
  if ((process.env["CI"] ?? "") !== "") throw new Error(why);
  // The reporter does not show why a test was skipped.
  console.warn(`skipped: ${why}`);
  return false;
}

/** Skips a test where its example cannot be built. */
export async function needsToolchain({ skip }: TestContext, example: Example): Promise<void> {
  if (!(await hasToolchain(example))) skip(`there is no ${example.needs}`);
}

/** Builds an example that was not built so far. */
export async function needsBuild({ folder, build, built }: Example): Promise<void> {
  if (!existsSync(`${folderOf(folder)}/${built}`)) await succeed(folder, build);
}

/** Where an example is. */
export function folderOf(folder: string): string {
  return fileURLToPath(new URL(`../../../examples/workers/${folder}`, import.meta.url));
}

/** Runs a command in the example's folder to its end. */
function run(folder: string, [program, ...args]: Command): Promise<{ status: unknown; output: string }> {
  const cwd = folderOf(folder);
  return new Promise((resolve) => {
    execFile(program, args, { cwd, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : (error.code ?? error.signal), output: stdout + stderr });
    });
  });
}

/** Fails with everything that the command has written. */
export async function succeed(folder: string, commands: readonly Command[]): Promise<void> {
  for (const command of commands) {
    const { status, output } = await run(folder, command);
    expect(status, `${command.join(" ")}\n${output}`).toBe(0);
  }
}
