import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { TrunklineError } from "../core/error.js";
import type { Account } from "./account.js";
import type { Binaries } from "./binaries.js";
import { CHILD_ENV } from "./cluster.js";
import { findPostmaster, type Postmaster } from "./postmaster.js";

/** How often a starting or stopping server is looked at. */
export const POLL_MS = 20;
const MAX_LOG_BYTES = 4 * 1024 * 1024;
const LOG_TAIL_LINES = 8;

/** What {@link launchPostmaster} needs to know. */
export interface LaunchOptions {
  readonly dataDir: string;
  readonly binaries: Binaries;
  readonly account: Account | undefined;
  readonly port: number;
  /** Off: nothing is flushed to disk, which is fast and loses data when the machine stops. */
  readonly durable: boolean;
  readonly maxConnections: number;
  readonly deadlineMs: number;
}

/** How a launch went; `taken`: another start was quicker. */
export type LaunchResult =
  | { readonly outcome: "ready"; readonly postmaster: Postmaster }
  | { readonly outcome: "folder-taken" | "port-taken" }
  | { readonly outcome: "failed"; readonly logTail: string };

/**
 * Starts PostgreSQL and waits until it accepts connections. It runs in a session of its own, so that a
 * terminal's Ctrl-C does not end it before the server that uses it, and it outlives this process.
 */
export async function launchPostmaster(options: LaunchOptions): Promise<LaunchResult> {
  const log = await openLog(options.dataDir);
  try {
    const child = spawn(options.binaries.postgres, postgresArgs(options), {
      ...options.account,
      cwd: "/",
      env: CHILD_ENV,
      detached: true,
      stdio: ["ignore", log.file.fd, log.file.fd],
    });
    const end = once(child, "exit");
    // A failed spawn rejects; unheard until the race below, that would end the process.
    end.catch(() => undefined);
    child.unref();
    while (child.exitCode === null && child.signalCode === null) {
      const postmaster = await findPostmaster(options.dataDir);
      if (postmaster?.status === "ready" && postmaster.process.pid === child.pid) {
        return { outcome: "ready", postmaster };
      }
      if (performance.now() > options.deadlineMs) {
        child.kill("SIGQUIT");
        await end;
        return { outcome: "failed", logTail: `not ready in time; ${await log.tail()}` };
      }
      await Promise.race([delay(POLL_MS), end]);
    }
    return classifyFailure(await log.tail());
  } finally {
    await log.file.close();
  }
}

/** Asks the system for a port that nobody listens on at the moment. */
export async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") {
    throw new TrunklineError("INTERNAL", "a TCP server on 127.0.0.1 has no port");
  }
  return address.port;
}

function postgresArgs(options: LaunchOptions): string[] {
  const settings: Record<string, string | number> = {
    listen_addresses: "127.0.0.1",
    port: options.port,
    // A socket's path is limited to about 100 bytes, which a project's folder may exceed.
    unix_socket_directories: "",
    max_connections: options.maxConnections,
    shared_buffers: "128MB",
    log_checkpoints: "off",
    ...(options.durable
      ? { fsync: "on" }
      : { fsync: "off", synchronous_commit: "off", full_page_writes: "off" }),
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  return ["-D", options.dataDir, ...flags];
}

/** Opens the server's log inside the data folder; `tail` reads what was added since. */
async function openLog(dataDir: string): Promise<{
  readonly file: Awaited<ReturnType<typeof open>>;
  readonly tail: () => Promise<string>;
}> {
  const path = join(dataDir, "trunkline-postgres.log");
  // As root, in a folder of a lesser account: never follow a link that it may have planted.
  const flags = constants.O_APPEND | constants.O_CREAT | constants.O_WRONLY | constants.O_NOFOLLOW;
  const file = await open(path, flags, 0o600);
  if ((await file.stat()).size > MAX_LOG_BYTES) await file.truncate();
  const start = (await file.stat()).size;
  const tail = async (): Promise<string> => {
    const added = (await readFile(path)).subarray(start).toString("utf8");
    return added.trim().split("\n").slice(-LOG_TAIL_LINES).join("; ");
  };
  return { file, tail };
}

function classifyFailure(logTail: string): LaunchResult {
  // "pre-existing shared memory block": children of a killed server that have not noticed yet.
  if (/lock file "postmaster\.pid"|pre-existing shared memory block/.test(logTail)) {
    return { outcome: "folder-taken" };
  }
  if (logTail.includes("could not create any TCP/IP sockets")) return { outcome: "port-taken" };
  return { outcome: "failed", logTail };
}
