// Where a run took place, and on what.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";

const PEERS = ["graphile-worker", "pg-boss", "@dbos-inc/dbos-sdk", "bullmq"];

/** The machine in one line. */
export function machine() {
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} × ${cpus()[0]?.model.trim()}, ${memory} GiB, Node ${process.version}`;
}

/** The commit that is measured; with a `+` where files have been changed since. */
export function commit() {
  const git = (...args) => execFileSync("git", args, { encoding: "utf8", cwd: import.meta.dirname }).trim();
  const changed = git("status", "--porcelain", "--untracked-files=no") !== "";
  return `${git("rev-parse", "--short", "HEAD")}${changed ? "+" : ""}`;
}

/**
 * The versions of the peers, by their packages' names.
 *
 * @returns {Record<string, string>}
 */
export function versions() {
  const file = new URL("package.json", import.meta.url);
  const { devDependencies } = JSON.parse(readFileSync(file, "utf8"));
  return Object.fromEntries(PEERS.map((name) => [name, devDependencies[name]]));
}
