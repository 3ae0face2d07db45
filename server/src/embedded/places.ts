import { createHash } from "node:crypto";
import { chmod, chown, lstat, mkdir, realpath } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { TrunklineError } from "../core/error.js";
import { canEnter, type Account } from "./account.js";

/**
 * Where the cluster of `dataDir` really lies. That is `dataDir` itself, with symbolic links resolved,
 * unless PostgreSQL runs under another account that cannot get there (a project below /root): then
 * a folder outside, always the same one for the same `dataDir`, and the log says which.
 */
export async function placeDataFolder(
  dataDir: string,
  account: Account | undefined,
  log: (line: string) => void,
): Promise<string> {
  const parent = dirname(resolve(dataDir));
  const made = await mkdir(parent, { recursive: true });
  if (made !== undefined && account !== undefined) await chown(parent, account.uid, account.gid);
  const real = await realpath(parent);
  const wanted = join(real, basename(dataDir));
  if (account === undefined || (await canEnter(account, real))) return wanted;

  const hash = createHash("sha256").update(wanted).digest("hex").slice(0, 16);
  const place = join(await sharedFolder(account), `pg-${hash}`);
  log(`uid ${account.uid}, under which PostgreSQL runs, cannot enter ${real}; its data is in ${place}`);
  return place;
}

/**
 * A folder of root's that the account can enter, for what it cannot reach elsewhere. A folder which
 * somebody else could have prepared is never taken.
 */
export async function sharedFolder(account: Account): Promise<string> {
  const candidates = [
    "/var/lib/trunkline/embedded",
    join(tmpdir(), "trunkline-embedded"),
    "/tmp/trunkline-embedded",
  ];
  for (const folder of candidates) {
    try {
      await mkdir(folder, { recursive: true, mode: 0o755 });
      const found = await lstat(folder);
      if (!found.isDirectory() || found.uid !== process.getuid?.()) continue;
      await chmod(folder, 0o755);
      if (await canEnter(account, folder)) return folder;
    } catch {
      continue;
    }
  }
  throw new TrunklineError(
    "UNAVAILABLE",
    `embedded PostgreSQL runs as uid ${account.uid}, which can enter neither the project's folder nor ` +
      `${candidates.join(", ")}: move the project out of a private folder, run as another user, or set ` +
      "DATABASE_URL to a PostgreSQL server",
  );
}
