import { chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startEmbeddedPostgres } from "../../server/src/embedded/embedded-postgres.js";
import { inspectProcess } from "../../server/src/embedded/process-info.js";
import { until } from "../support/until.js";
import { RunningCommand, trunkline } from "./command.js";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "trunkline-dev-"));
  // As root, PostgreSQL runs under an account that must be able to get in; else its data is kept elsewhere.
  await chmod(folder, 0o755);
});

afterEach(async () => {
  // What a failed test left running is an orphan, which this takes over and stops.
  await (await startEmbeddedPostgres({ dataDir: join(folder, ".trunkline/pg") })).stop();
  await rm(folder, { recursive: true, force: true });
});

const dev = (...flags: string[]): RunningCommand =>
  new RunningCommand(["dev", "--port", "0", ...flags], { cwd: folder });

/** The process of the embedded PostgreSQL, which the log names. */
const postgresOf = ({ stderr }: RunningCommand): number =>
  Number(/PostgreSQL \(process (\d+)\)/.exec(stderr)?.[1]);

const isGone = async (pid: number): Promise<boolean> => (await inspectProcess(pid)) === undefined;

describe("dev", () => {
  test("serves from an empty folder, keeps its data, and Ctrl-C leaves nothing running", async () => {
    await using first = dev();
    const run = await trunkline(["run", "create"], { env: { TRUNKLINE_URL: await first.ready() } });
    expect(run).toMatchObject({ status: 0, stderr: "" });
    const postgres = postgresOf(first);
    first.signal("SIGINT");
    expect(await first.ended).toEqual({ status: 0, signal: null });
    expect(await isGone(postgres)).toBe(true);
    expect(await readFile(join(folder, ".trunkline/.gitignore"), "utf8")).toBe("*\n");

    await using second = dev();
    const shown = await trunkline(["run", "list"], { env: { TRUNKLINE_URL: await second.ready() } });
    expect(shown.stdout).toContain(run.stdout.trim());
    expect(await second.terminate()).toEqual({ status: 0, signal: null });
  });

  test("S22: after a kill the next start takes the orphaned database over, finds the data, and ends it", async () => {
    await using killed = dev();
    const run = await trunkline(["run", "create"], { env: { TRUNKLINE_URL: await killed.ready() } });
    const postgres = postgresOf(killed);
    await killed.kill();
    expect(await isGone(postgres)).toBe(false);

    await using next = dev();
    const shown = await trunkline(["run", "list"], { env: { TRUNKLINE_URL: await next.ready() } });
    expect(shown.stdout).toContain(run.stdout.trim());
    expect(postgresOf(next)).toBe(postgres);
    expect(await next.terminate()).toEqual({ status: 0, signal: null });
    expect(await isGone(postgres)).toBe(true);
  });

  test("a signal that comes before it serves stops what was started", async () => {
    await using early = dev();
    await until("PostgreSQL is there", () => postgresOf(early), 20_000);
    early.signal("SIGTERM");
    expect(await early.ended).toEqual({ status: 0, signal: null });
    expect(await isGone(postgresOf(early))).toBe(true);
  });

  test("one Ctrl-C that arrives twice, by the terminal and by npm, still leaves nothing running", async () => {
    await using twice = dev();
    await twice.ready();
    twice.signal("SIGINT");
    twice.signal("SIGINT");
    expect(await twice.ended).toEqual({ status: 0, signal: null });
    expect(await isGone(postgresOf(twice))).toBe(true);
  });

  test("a second Ctrl-C ends a stop that takes too long, and says what it leaves behind", async () => {
    await using stuck = dev();
    await stuck.ready();
    const postgres = postgresOf(stuck);
    process.kill(postgres, "SIGSTOP");
    try {
      stuck.signal("SIGINT");
      await until("it stops", () => stuck.stderr.includes('"msg":"stopping"'));
      await until("it has ended", () => {
        stuck.signal("SIGINT");
        return !stuck.isAlive;
      });
    } finally {
      process.kill(postgres, "SIGCONT");
    }
    expect(await stuck.ended).toEqual({ status: 130, signal: null });
    expect(stuck.stderr).toContain(
      "PostgreSQL is left running; the next `trunkline dev` in this folder takes it over",
    );
    expect(await isGone(postgres)).toBe(false);
  });
});
