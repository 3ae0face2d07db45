import { spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** The root of the repository. */
export const ROOT = fileURLToPath(new URL("..", import.meta.url));

const bin = path.join(ROOT, "node_modules", ".bin");
const env = { ...process.env, PATH: `${bin}${path.delimiter}${process.env["PATH"] ?? ""}` };

/**
 * Runs a command in the root, with the project's own tools on the path and its output shown.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @returns {boolean} Whether it ended with status 0.
 */
export const run = (command, args) =>
  spawnSync(command, args, { cwd: ROOT, env, stdio: "inherit" }).status === 0;

/**
 * Runs a command in the root and reads what it prints.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @returns {string | undefined} Its standard output, or nothing when it failed or does not exist.
 */
export const read = (command, args) => {
  const { status, stdout } = spawnSync(command, args, { cwd: ROOT, env, encoding: "utf8" });
  return status === 0 ? stdout.trim() : undefined;
};
