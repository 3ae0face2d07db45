import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { childrenOf } from "./postgres.mjs";

const SIGNALS = /** @type {const} */ ({ SIGHUP: 129, SIGINT: 130, SIGTERM: 143 });
/** How long an interrupted driver may take to end everything in order. */
const CLEAR_MS = 30_000;

/**
 * Starts a driver in a process group of its own and waits for it; whatever becomes of the driver, nothing of the group
 * is left running, nor the PostgreSQL in its folder.
 *
 * @param {object} run
 * @param {readonly string[]} run.args Of Node: the driver, and flags before it.
 * @param {NodeJS.ProcessEnv} run.env More of its environment.
 * @param {string} run.folder
 * @returns {Promise<number>} The status.
 */
export async function guard({ args, env, folder }) {
  const driver = spawn(process.execPath, args, {
    detached: true,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    env: { ...process.env, ...env },
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
