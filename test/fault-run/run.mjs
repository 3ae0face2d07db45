/**
 * The fault run: `npm run fault -- --help`. Starts the driver in a process group of its own and waits for it;
 * whatever becomes of the driver, nothing of the group is left running, nor its PostgreSQL.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, chmodSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseOptions, USAGE, UsageError } from "./options.mjs";
import { childrenOf } from "./stage/postgres.mjs";

const DRIVER = fileURLToPath(new URL("drive.mjs", import.meta.url));
const SIGNALS = /** @type {const} */ ({ SIGHUP: 129, SIGINT: 130, SIGTERM: 143 });
/** How long an interrupted driver may take to end everything in order. */
const CLEAR_MS = 30_000;

try {
  const options = parseOptions(process.argv.slice(2));
  if (options === "help") console.log(USAGE);
  else process.exitCode = await guard(options);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\n\n${USAGE}`);
  process.exitCode = 2;
}

/**
 * @param {import("./options.mjs").Options} options
 * @returns {Promise<number>} The status.
 */
async function guard(options) {
  const folder = mkdtempSync(join(tmpdir(), "trunkline-fault-"));
  // As root, PostgreSQL runs under an account that must be able to get in; it guards its own folder.
  chmodSync(folder, 0o755);
  const driver = spawn(process.execPath, ["--max-old-space-size=8192", DRIVER], {
    detached: true,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    env: { ...process.env, FAULT_RUN: JSON.stringify({ options, folder }) },
  });
  /** @type {number | undefined} */
  let interrupted;
  for (const [signal, status] of Object.entries(SIGNALS)) {
    process.on(signal, () => {
      if (interrupted !== undefined) return;
      interrupted = status;
      driver.send({ type: "interrupt" }, () => undefined);
      setTimeout(() => driver.kill("SIGKILL"), CLEAR_MS).unref();
    });
  }
  const status = await new Promise((resolve) => {
    driver.once("exit", (code) => resolve(code ?? 1));
    driver.once("error", () => resolve(1));
  });
  if (driver.pid !== undefined) endGroup(driver.pid);
  await endPostgres(folder);
  return interrupted ?? status;
}

/** @param {number} leader */
function endGroup(leader) {
  try {
    process.kill(-leader, "SIGKILL");
  } catch {
    // It is empty: as it should be.
  }
}

/**
 * PostgreSQL is in no group of ours. After a driver that has ended in order there is none.
 *
 * @param {string} folder
 */
async function endPostgres(folder) {
  /** @type {number} */
  let pid;
  try {
    pid = Number.parseInt(readFileSync(join(folder, "postgres", "postmaster.pid"), "utf8"), 10);
  } catch {
    return;
  }
  if (!(pid > 1)) return;
  for (const each of [pid, ...(await childrenOf(pid))]) signal(each, "SIGCONT");
  signal(pid, "SIGQUIT");
}

/**
 * @param {number} pid
 * @param {NodeJS.Signals} how
 */
function signal(pid, how) {
  try {
    process.kill(pid, how);
  } catch {
    // It has ended.
  }
}
