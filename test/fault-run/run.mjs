/** The fault run: `npm run fault -- --help`. Whatever becomes of its driver, nothing is left running. */
import { mkdtempSync, chmodSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseOptions, USAGE, UsageError } from "./options.mjs";
import { guard } from "./stage/guard.mjs";

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
function start(options) {
  const folder = mkdtempSync(join(tmpdir(), "trunkline-fault-"));
  // As root, PostgreSQL runs under an account that must be able to get in; it guards its own folder.
  chmodSync(folder, 0o755);
  const env = { FAULT_RUN: JSON.stringify({ options, folder }) };
  return guard({ args: ["--max-old-space-size=8192", DRIVER], env, folder });
}
