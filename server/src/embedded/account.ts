import { execFile } from "node:child_process";
import { readFile, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { TrunklineError } from "../core/error.js";

/** The operating system's account under which PostgreSQL runs. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** Accounts that exist for a purpose like ours, best first; `_postgres` is macOS's. */
const KNOWN_ACCOUNTS = ["postgres", "_postgres", "nobody"];

/**
 * Chooses the account for a data folder. PostgreSQL refuses to run as root, so root gives it the
 * folder's owner, else the owner of the nearest parent that exists (who may later use the folder
 * without root), else a system account. Undefined: we are not root, it runs as we do.
 */
export async function chooseAccount(dataDir: string): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const owner = await ownerOf(dataDir);
  if (owner !== undefined && owner.uid !== 0) return owner;

  const known = await readAccounts();
  const parent = await nearestOwner(dirname(dataDir));
  // initdb looks its own uid up and fails for one without an entry.
  if (parent.uid !== 0 && [...known.values()].some(({ uid }) => uid === parent.uid)) return parent;
  for (const name of KNOWN_ACCOUNTS) {
    const account = known.get(name);
    if (account !== undefined) return account;
  }
  throw new TrunklineError(
    "UNAVAILABLE",
    `embedded PostgreSQL does not run as root, and none of the accounts ${KNOWN_ACCOUNTS.join(", ")} ` +
      "exists in /etc/passwd: add one, run as another user, or set DATABASE_URL to a PostgreSQL server",
  );
}

/** Whether the account can enter a folder; asked of the system itself, which also knows of ACLs. */
export async function canEnter(account: Account | undefined, folder: string): Promise<boolean> {
  try {
    await promisify(execFile)("/bin/sh", ["-c", 'cd -- "$1"', "sh", folder], {
      ...account,
      cwd: "/",
      env: {},
    });
    return true;
  } catch {
    return false;
  }
}

async function ownerOf(path: string): Promise<Account | undefined> {
  try {
    const { uid, gid } = await stat(path);
    return { uid, gid };
  } catch {
    return undefined;
  }
}

async function nearestOwner(folder: string): Promise<Account> {
  const owner = await ownerOf(folder);
  if (owner !== undefined) return owner;
  const parent = dirname(folder);
  return parent === folder ? { uid: 0, gid: 0 } : nearestOwner(parent);
}

async function readAccounts(): Promise<Map<string, Account>> {
  const accounts = new Map<string, Account>();
  for (const line of (await readFile("/etc/passwd", "utf8")).split("\n")) {
    const [name, , uid, gid] = line.split(":");
    if (name === undefined || uid === undefined || gid === undefined) continue;
    accounts.set(name, { uid: Number(uid), gid: Number(gid) });
  }
  return accounts;
}
