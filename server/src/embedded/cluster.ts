import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chown, mkdir, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { TrunklineError } from "../core/error.js";
import type { Account } from "./account.js";
import type { Binaries } from "./binaries.js";
import { errorCode } from "./error-code.js";

/** The superuser of every embedded cluster. */
export const SUPERUSER = "trunkline";

/** What {@link ensureCluster} needs to know. */
export interface ClusterOptions {
  readonly dataDir: string;
  readonly binaries: Binaries;
  readonly account: Account | undefined;
  /** Whether the new files are flushed to disk. */
  readonly durable: boolean;
  readonly log: (line: string) => void;
}

/**
 * Sees to it that the folder holds a cluster which our PostgreSQL can run: makes one when the folder is
 * missing or empty. It is made aside and moved into place whole, so a start that dies half way or races
 * with another one leaves no broken folder.
 *
 * @throws TrunklineError UNAVAILABLE when the folder holds something else, or cannot be read.
 */
export async function ensureCluster(options: ClusterOptions): Promise<void> {
  const { dataDir, binaries } = options;
  if (await hasCluster(dataDir, binaries)) return;
  options.log(`making a PostgreSQL ${binaries.major} cluster in ${dataDir}`);
  const fresh = `${dataDir}.new-${randomBytes(6).toString("hex")}`;
  try {
    await mkdir(fresh, { mode: 0o700 });
    if (options.account !== undefined) await chown(fresh, options.account.uid, options.account.gid);
    await runInitdb(fresh, options);
    await rename(fresh, dataDir).catch(async (error: unknown) => {
      // ENOTEMPTY: another start has put its cluster there meanwhile.
      if (!(await hasCluster(dataDir, binaries))) throw error;
    });
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

/** The superuser's password; whoever can read the folder's files may connect. */
export async function readPassword(dataDir: string): Promise<string> {
  return (await readFile(passwordPath(dataDir), "utf8")).trim();
}

function passwordPath(dataDir: string): string {
  return join(dataDir, "trunkline-password");
}

async function hasCluster(dataDir: string, binaries: Binaries): Promise<boolean> {
  const files = await listFolder(dataDir);
  if (files.length === 0) return false;
  if (!files.includes("PG_VERSION") || !files.includes("trunkline-password")) {
    throw new TrunklineError(
      "UNAVAILABLE",
      `data folder ${dataDir} is not empty and not one of Trunkline's: name an empty or missing folder, ` +
        "or set DATABASE_URL to a PostgreSQL server",
    );
  }
  const major = (await readFile(join(dataDir, "PG_VERSION"), "utf8")).trim();
  if (major !== String(binaries.major)) {
    throw new TrunklineError(
      "UNAVAILABLE",
      `data folder ${dataDir} was made by PostgreSQL ${major} and cannot be run by ${binaries.major}: ` +
        "dump it with the version of Trunkline that made it, or name another folder",
    );
  }
  return true;
}

async function listFolder(dataDir: string): Promise<string[]> {
  try {
    return await readdir(dataDir);
  } catch (error) {
    const code = errorCode(error);
    if (code === "ENOENT") return [];
    throw new TrunklineError(
      "UNAVAILABLE",
      `data folder ${dataDir} cannot be read (${String(code)}): run as the user who owns it, name another ` +
        "folder, or set DATABASE_URL to a PostgreSQL server",
      { cause: error },
    );
  }
}

async function runInitdb(folder: string, options: ClusterOptions): Promise<void> {
  const passwordFile = `${folder}.password`;
  const password = randomBytes(24).toString("base64url");
  const args = [
    `--pgdata=${folder}`,
    `--username=${SUPERUSER}`,
    `--pwfile=${passwordFile}`,
    "--auth=scram-sha-256",
    // Stretching protects guessable passwords; ours is random, and connecting should be cheap.
    "--set=scram_iterations=1",
    "--encoding=UTF8",
    "--locale=C",
    // PostgreSQL's own locale, the same on every system.
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--no-instructions",
    ...(options.durable ? [] : ["--no-sync"]),
  ];
  const { account } = options;
  try {
    await writeFile(passwordFile, `${password}\n`, { flag: "wx", mode: 0o600 });
    if (account !== undefined) await chown(passwordFile, account.uid, account.gid);
    await promisify(execFile)(options.binaries.initdb, args, { ...account, cwd: "/", env: CHILD_ENV });
    // initdb wants an empty folder, so the file moves in afterwards.
    await rename(passwordFile, passwordPath(folder));
  } catch (cause) {
    const output = cause instanceof Error && "stderr" in cause ? String(cause.stderr).trim() : String(cause);
    throw new TrunklineError(
      "UNAVAILABLE",
      `initdb could not make a PostgreSQL cluster in ${options.dataDir}: ${output.replaceAll("\n", "; ")}`,
      { cause },
    );
  } finally {
    await rm(passwordFile, { force: true });
  }
}

/** PostgreSQL's programs get nothing of our environment: PGDATA, PGPORT and locales would change them. */
export const CHILD_ENV: Readonly<Record<string, string>> = { LC_ALL: "C", TZ: "UTC", PATH: "/usr/bin:/bin" };
