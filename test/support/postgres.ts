import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { rm } from "node:fs/promises";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { startEmbeddedPostgres, type EmbeddedPostgres } from "../../server/src/embedded/embedded-postgres.js";
import { findFreePort } from "../../server/src/embedded/launch.js";
import { inspectProcess } from "../../server/src/embedded/process-info.js";

/** A PostgreSQL server of a test's own, which it may stop, kill and start again on the same port. */
export interface TestPostgres {
  /** The superuser's connection string; it stays the same across restarts. */
  readonly url: string;
  readonly dataDir: string;
  /** Starts it again after {@link stop} or {@link kill}. */
  start(): Promise<void>;
  /** Ends it as an operator would: a fast shutdown. */
  stop(): Promise<void>;
  /** Ends it as a power cut would, without a last word (SIGKILL). */
  kill(): Promise<void>;
  /** Stops it, if it runs, and removes its data, unless told to keep them. */
  dispose(options?: { readonly keepData?: boolean }): Promise<void>;
}

/** The connection string of another database on the same server, for the same user. */
export function withDatabase(url: string, database: string): string {
  const other = new URL(url);
  other.pathname = `/${database}`;
  return other.href;
}

/** A path for a data folder that does not exist yet, outside the repository. */
export function newDataFolder(): string {
  return join(tmpdir(), `trunkline-test-${randomBytes(6).toString("hex")}`);
}

/**
 * Starts a server in a new folder. Should this process die first, the server and its folder are cleared
 * away all the same.
 *
 * @param options.durable Default true, as in production; without it tests are faster.
 */
export async function startTestPostgres(options: { readonly durable?: boolean } = {}): Promise<TestPostgres> {
  const dataDir = newDataFolder();
  const port = await findFreePort();
  const start = (): Promise<EmbeddedPostgres> => startEmbeddedPostgres({ dataDir, port, ...options });
  const undertaker = watchOverMe(dataDir);
  let server = await start();
  return {
    url: server.url,
    dataDir,
    start: async () => {
      server = await start();
    },
    stop: () => server.stop(),
    kill: async () => {
      process.kill(server.pid, "SIGKILL");
      while ((await inspectProcess(server.pid)) !== undefined) await delay(5);
    },
    dispose: async ({ keepData = false } = {}) => {
      await server.stop();
      await undertaker.dismiss();
      if (!keepData) await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/**
 * Sees to it that the server of the folder ends, and the folder goes, with this process.
 *
 * Starts a shell that waits until this process has died, however that came about, and then stops the
 * server of the folder and removes it. It learns of the death by the end of its standard input.
 */
export function watchOverMe(dataDir: string): { dismiss(): Promise<void> } {
  const script = `
    read -r word && exit 0
    pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null) && kill -INT "$pid"
    tries=0
    while [ -e "$1/postmaster.pid" ] && [ $tries -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
    rm -rf -- "$1"`;
  const shell = spawn("/bin/sh", ["-c", script, "sh", dataDir], {
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  const ended = once(shell, "exit");
  // Neither the process nor the pipe to it may keep a test run alive.
  shell.unref();
  if (shell.stdin instanceof Socket) shell.stdin.unref();
  return {
    dismiss: async () => {
      shell.ref();
      shell.stdin.end("dismissed\n");
      await ended;
    },
  };
}
