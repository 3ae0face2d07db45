/**
 * The fuzz run: `npm run fuzz -- --help`. Hostile inputs for a server in a process of its own, which must not mind.
 * Whatever becomes of its driver, nothing is left running.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { guard } from "../fault-run/stage/guard.mjs";
import { parseOptions, USAGE, UsageError } from "./options.mjs";

const DRIVER = fileURLToPath(new URL("drive.mjs", import.meta.url));

try {
  const options = parseOptions(process.argv.slice(2));
  if (options === "help") console.log(USAGE);
  else process.exitCode = await start(options);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\n\n${USAGE}`);
  process.exitCode = 2;
}

/**
 * @param {import("./options.mjs").Options} options
 * @returns {Promise<number>} The status.
 */
async function start(options) {
  const folder = mkdtempSync(join(tmpdir(), "trunkline-fuzz-"));
  // As root, PostgreSQL runs under an account that must be able to get in; it guards its own folder.
  chmodSync(folder, 0o755);
  try {
    const env = { FUZZ_RUN: JSON.stringify({ options, folder }) };
    return await guard({ args: [DRIVER], env, folder });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
