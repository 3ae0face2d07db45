import { randomBytes } from "node:crypto";
import { link, readFile, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { errorCode } from "./error-code.js";
import { inspectProcess, type ProcessInfo } from "./process-info.js";

/** A PostgreSQL server that is running on a data folder, as its `postmaster.pid` describes it. */
export interface Postmaster {
  readonly process: ProcessInfo;
  /** Undefined in the first moments, before it listens. */
  readonly port: number | undefined;
  readonly status: "starting" | "ready" | "stopping";
}

/**
 * Finds the server that runs on the folder. A `postmaster.pid` whose process is dead, or whose pid now
 * belongs to another program, is put out of the way: PostgreSQL itself refuses to start over the latter.
 */
export async function findPostmaster(dataDir: string): Promise<Postmaster | undefined> {
  const path = join(dataDir, "postmaster.pid");
  const text = await readIfThere(path);
  if (text === undefined) return undefined;
  // https://www.postgresql.org/docs/18/storage-file-layout.html: pid, folder, start time, port,
  // socket folder, listen address, shared memory, and (in the source, pidfile.h) the status.
  const lines = text.split("\n");
  const pid = Number(lines[0]);
  // The server writes its pid first and the rest a moment later.
  if (text === "" || !Number.isSafeInteger(pid)) return undefined;
  const found = await inspectProcess(pid);
  if (found === undefined || !isPostmasterOf(found, dataDir)) {
    await removeStale(path, text);
    return undefined;
  }
  const port = Number(lines[3]);
  const status = lines[7]?.trim();
  return {
    process: found,
    port: Number.isSafeInteger(port) && port > 0 ? port : undefined,
    status: status === "ready" || status === "stopping" ? status : "starting",
  };
}

function isPostmasterOf(found: ProcessInfo, dataDir: string): boolean {
  const program = basename(found.command.split(" ", 1)[0] ?? "");
  // A postmaster works in its data folder. Its children do as well, under titles such as "postgres: user".
  if (program !== "postgres") return false;
  return found.cwd === undefined ? found.command.includes(dataDir) : found.cwd === dataDir;
}

/**
 * Takes away the file that held `stale`. Another start may have replaced it since we read it: that one
 * is put back. (Two servers on one folder are also ruled out by PostgreSQL's shared memory, which is
 * keyed by the folder's inode.)
 */
async function removeStale(path: string, stale: string): Promise<void> {
  const aside = `${path}.stale-${randomBytes(6).toString("hex")}`;
  try {
    await rename(path, aside);
  } catch {
    return;
  }
  if ((await readIfThere(aside)) !== stale) await link(aside, path).catch(() => undefined);
  await rm(aside, { force: true });
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
