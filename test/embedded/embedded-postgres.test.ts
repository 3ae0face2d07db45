import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import pg from "pg";
import { afterAll, describe, expect, test } from "vitest";
import { startEmbeddedPostgres } from "../../server/src/embedded/embedded-postgres.js";
import { inspectProcess } from "../../server/src/embedded/process-info.js";
import { newDataFolder } from "../support/postgres.js";
import { startInProcess } from "./starter-process.js";

const folders: string[] = [];

function folder(): string {
  const path = newDataFolder();
  folders.push(path);
  return path;
}

afterAll(async () => {
  for (const path of folders) await rm(path, { recursive: true, force: true });
});

async function ask(url: string, statement: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, unknown>>(statement);
    return Object.values(rows[0] ?? {})[0];
  } finally {
    await client.end();
  }
}

describe("an embedded PostgreSQL of this process", () => {
  const dataDir = folder();

  test("is made on first use, flushes commits, and keeps its data over a restart", async () => {
    const first = await startEmbeddedPostgres({ dataDir });
    expect(first.reused).toBe(false);
    expect(await ask(first.url, "SHOW fsync")).toBe("on");
    expect(await ask(first.url, "SHOW server_encoding")).toBe("UTF8");
    await ask(first.url, "CREATE TABLE kept AS SELECT 42 AS answer");
    await first.stop();

    const second = await startEmbeddedPostgres({ dataDir });
    expect(second.reused).toBe(false);
    expect(await ask(second.url, "SELECT answer FROM kept")).toBe(42);
    await second.stop();
  });

  test("is gone when stop returns, and stopping twice is fine", async () => {
    const server = await startEmbeddedPostgres({ dataDir });
    await Promise.all([server.stop(), server.stop()]);
    await server.stop();
    expect(await inspectProcess(server.pid)).toBeUndefined();
    expect(existsSync(join(dataDir, "postmaster.pid"))).toBe(false);
    await expect(ask(server.url, "SELECT 1")).rejects.toThrow(/ECONNREFUSED/);
  });

  test("is not open to whoever can reach the port", async () => {
    const server = await startEmbeddedPostgres({ dataDir });
    const guess = new URL(server.url);
    guess.password = "guess";
    await expect(ask(guess.href, "SELECT 1")).rejects.toThrow(/password authentication failed/);
    expect(await ask(server.url, "SHOW listen_addresses")).toBe("127.0.0.1");
    await server.stop();
  });

  test("is stopped by a second start that says that nobody needs it any more", async () => {
    const first = await startEmbeddedPostgres({ dataDir });
    const second = await startEmbeddedPostgres({ dataDir });
    await second.stop({ force: true });
    expect(await inspectProcess(first.pid)).toBeUndefined();
    await first.stop();
  });

  test("is reused by a second start, whose stop leaves it to the first", async () => {
    const log: string[] = [];
    const first = await startEmbeddedPostgres({ dataDir });
    const second = await startEmbeddedPostgres({ dataDir, port: 1, log: (line) => log.push(line) });
    expect(second).toMatchObject({ reused: true, pid: first.pid, url: first.url });
    expect(log.join("\n")).toMatch(/it listens on port \d+, not on 1/);
    await second.stop();
    expect(await ask(first.url, "SELECT 1")).toBe(1);
    await first.stop();
    expect(await inspectProcess(first.pid)).toBeUndefined();
  });

  test("is one server when two starts make the folder at once", async () => {
    const fresh = folder();
    const both = await Promise.all([
      startEmbeddedPostgres({ dataDir: fresh, durable: false }),
      startEmbeddedPostgres({ dataDir: fresh, durable: false }),
    ]);
    expect(both[0].pid).toBe(both[1].pid);
    expect(both.map(({ reused }) => reused).sort()).toEqual([false, true]);
    await Promise.all(both.map((server) => server.stop()));
    expect(await inspectProcess(both[0].pid)).toBeUndefined();
  });
});

describe("an embedded PostgreSQL after an unclean end (S22)", () => {
  const dataDir = folder();

  test("of its starter is adopted by the next start, which then stops it", async () => {
    const starter = await startInProcess({ dataDir, durable: false });
    expect(starter.reused).toBe(false);
    await ask(starter.url, "CREATE TABLE kept AS SELECT 42 AS answer");
    await starter.kill();
    expect(await inspectProcess(starter.pid)).toBeDefined();

    const next = await startEmbeddedPostgres({ dataDir });
    expect(next).toMatchObject({ reused: true, pid: starter.pid });
    expect(await ask(next.url, "SELECT answer FROM kept")).toBe(42);
    await next.stop();
    expect(await inspectProcess(next.pid)).toBeUndefined();
  });

  test("of its starter is stopped by the user who came second", async () => {
    const starter = await startInProcess({ dataDir, durable: false });
    const second = await startEmbeddedPostgres({ dataDir });
    expect(second.reused).toBe(true);
    await starter.kill();
    await second.stop();
    expect(await inspectProcess(second.pid)).toBeUndefined();
  });

  test("of itself starts again over the files that it left", async () => {
    const killed = await startEmbeddedPostgres({ dataDir });
    await ask(killed.url, "CREATE TABLE flushed AS SELECT 7 AS answer");
    process.kill(killed.pid, "SIGKILL");
    const next = await startEmbeddedPostgres({ dataDir });
    expect(next.reused).toBe(false);
    expect(await ask(next.url, "SELECT answer FROM flushed")).toBe(7);
    await next.stop();
    await killed.stop();
  });

  test("does not take another program for itself that has its old pid now", async () => {
    const { uid, gid } = await stat(dataDir);
    const account = process.getuid?.() === 0 ? { uid, gid } : {};
    // The same user's, so that PostgreSQL by itself would refuse to start.
    const program = spawn("/bin/sleep", ["60"], { ...account, cwd: dataDir });
    await once(program, "spawn");
    await writeFile(join(dataDir, "postmaster.pid"), `${program.pid}\n${dataDir}\n0\n5432\n\n\n\nready\n`);
    const server = await startEmbeddedPostgres({ dataDir, durable: false });
    expect(server.reused).toBe(false);
    await server.stop();
    expect(program.exitCode).toBeNull();
    program.kill();
    await once(program, "exit");
  });
});

describe("an embedded PostgreSQL that cannot start", () => {
  test("leaves a folder alone that holds something else", async () => {
    const dataDir = folder();
    await mkdir(dataDir);
    await writeFile(join(dataDir, "thesis.txt"), "all of it");
    await expect(startEmbeddedPostgres({ dataDir })).rejects.toMatchObject({
      reason: "UNAVAILABLE",
      message: expect.stringContaining(`${dataDir} is not empty`),
    });
    expect(existsSync(join(dataDir, "thesis.txt"))).toBe(true);
  });

  test("says so when its port is in use, and leaves nothing running", async () => {
    const dataDir = folder();
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const address = other.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    await expect(startEmbeddedPostgres({ dataDir, port, durable: false })).rejects.toMatchObject({
      reason: "UNAVAILABLE",
      message: expect.stringContaining(`port ${port} is in use`),
    });
    expect(existsSync(join(dataDir, "postmaster.pid"))).toBe(false);
    other.close();
  });
});
