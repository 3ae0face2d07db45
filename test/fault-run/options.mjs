import { randomBytes } from "node:crypto";
import { parseArgs } from "node:util";

/** How many calls a second are opened when nobody says otherwise. */
const CALLS_PER_SECOND = 200;
const DEFAULT_SECONDS = 60;

export const USAGE = `npm run fault -- [--calls N] [--seconds S] [--nodes K] [--seed X] [--json FILE]

  --calls N       open so many calls at most (default: ${CALLS_PER_SECOND} a second)
  --seconds S     how long the faults go on (default: ${DEFAULT_SECONDS}, or what the calls need)
  --nodes K       servers on one database (default: 3)
  --seed X        repeats the faults and the calls of another run (default: a new one, which is printed)
  --json FILE     writes the report there as well
  --workers N     worker processes (default: 4)
  --harnesses N   harness processes (default: 2)
  --only A,B      only these kinds of faults; "none" for none at all
  --keep          keeps the folder with the histories, the logs and the plan, also when all is well

PostgreSQL is an embedded one of its own, which is restarted too, unless DATABASE_URL names a server; a
database is made there, and dropped again.`;

/**
 * @typedef {object} Options
 * @property {number} calls
 * @property {number} seconds
 * @property {number} nodes
 * @property {number} workers
 * @property {number} harnesses
 * @property {string} seed
 * @property {string[] | null} only
 * @property {string | null} json
 * @property {boolean} keep
 */

/** Something on the command line that cannot be. */
export class UsageError extends Error {}

/**
 * @param {readonly string[]} args
 * @returns {Options | "help"}
 * @throws {UsageError}
 */
export function parseOptions(args) {
  const values = parse(args);
  if (values.help === true) return "help";
  const calls = values.calls === undefined ? undefined : whole("calls", values.calls, 1, 10_000_000);
  const seconds =
    values.seconds === undefined
      ? Math.ceil((calls ?? DEFAULT_SECONDS * CALLS_PER_SECOND) / CALLS_PER_SECOND)
      : whole("seconds", values.seconds, 1, 86_400);
  return {
    calls: calls ?? seconds * CALLS_PER_SECOND,
    seconds,
    nodes: whole("nodes", values.nodes ?? "3", 1, 20),
    workers: whole("workers", values.workers ?? "4", 1, 50),
    harnesses: whole("harnesses", values.harnesses ?? "2", 1, 20),
    seed: seedOf(values.seed),
    only: values.only === undefined ? null : values.only.split(",").filter((kind) => kind !== "none"),
    json: values.json ?? null,
    keep: values.keep ?? false,
  };
}

/**
 * The command that repeats a run.
 *
 * @param {Options} options
 */
export function commandOf({ calls, seconds, nodes, workers, harnesses, seed, only }) {
  const flags = [`--calls ${calls}`, `--seconds ${seconds}`, `--nodes ${nodes}`, `--seed ${seed}`];
  if (workers !== 4) flags.push(`--workers ${workers}`);
  if (harnesses !== 2) flags.push(`--harnesses ${harnesses}`);
  if (only !== null) flags.push(`--only ${only.length === 0 ? "none" : only.join(",")}`);
  return `npm run fault -- ${flags.join(" ")}`;
}

/** @param {readonly string[]} args */
function parse(args) {
  const text = /** @type {const} */ ({ type: "string" });
  try {
    return parseArgs({
      args: [...args],
      options: {
        calls: text,
        seconds: text,
        nodes: text,
        seed: text,
        json: text,
        workers: text,
        harnesses: text,
        only: text,
        keep: { type: "boolean" },
        help: { type: "boolean" },
      },
    }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

/**
 * @param {string} name
 * @param {string} given
 * @param {number} least
 * @param {number} most
 */
function whole(name, given, least, most) {
  const value = /^[0-9]+$/.test(given) ? Number(given) : NaN;
  if (value >= least && value <= most) return value;
  throw new UsageError(`--${name}: "${given}"; allowed are whole numbers from ${least} to ${most}`);
}

/** @param {string | undefined} given */
function seedOf(given) {
  if (given === undefined) return randomBytes(4).toString("hex");
  if (/^[A-Za-z0-9_.-]{1,64}$/.test(given)) return given;
  throw new UsageError(`--seed: "${given}"; allowed are 1 to 64 of A-Z a-z 0-9 _ . -`);
}
