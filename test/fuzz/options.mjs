import { randomBytes } from "node:crypto";
import { parseArgs } from "node:util";
import { KINDS } from "./kinds/kinds.mjs";

const NAMES = KINDS.map(({ name }) => name);

export const USAGE = `npm run fuzz -- [--inputs N] [--seed X] [--only KIND]... [--json FILE]

  --inputs N    so many inputs (default: 100000); runs what is built, so npm run build comes first
  --seed X      repeats the inputs of another run, but for the ids that the server makes (default: a new one)
  --from N      begins with this input (default: 0): a finding names its own
  --only KIND   only inputs of this kind; may be repeated: ${NAMES.join("; ")}
  --lanes N     so many inputs at a time (default: 64)
  --settle S    waits so many seconds at most until nothing is left of the clients (default: 110)
  --json FILE   writes the report there as well
  --verbose     prints the server's log, and every finding as it comes

PostgreSQL is an embedded one of its own, unless DATABASE_URL names a server: a database is made there, and
dropped again.`;

/**
 * @typedef {object} Options
 * @property {number} inputs
 * @property {string} seed
 * @property {number} from
 * @property {readonly string[]} only Empty: all kinds.
 * @property {number} lanes
 * @property {number} settleSeconds
 * @property {string | null} json
 * @property {boolean} verbose
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
  const other = values.only?.find((name) => !NAMES.includes(name));
  if (other !== undefined) throw new UsageError(`--only: "${other}"; allowed are ${NAMES.join("; ")}`);
  return {
    inputs: whole("inputs", values.inputs ?? "100000", 1, 100_000_000),
    seed: seedOf(values.seed),
    from: whole("from", values.from ?? "0", 0, 100_000_000),
    only: values.only ?? [],
    lanes: whole("lanes", values.lanes ?? "64", 1, 1_000),
    settleSeconds: whole("settle", values.settle ?? "110", 0, 600),
    json: values.json ?? null,
    verbose: values.verbose ?? false,
  };
}

/**
 * The command that repeats a run.
 *
 * @param {Options} options
 */
export function commandOf({ inputs, seed, from, only, lanes }) {
  const flags = [`--inputs ${inputs}`, `--seed ${seed}`];
  if (from !== 0) flags.push(`--from ${from}`);
  if (lanes !== 64) flags.push(`--lanes ${lanes}`);
  for (const name of only) flags.push(`--only "${name}"`);
  return `npm run fuzz -- ${flags.join(" ")}`;
}

/** @param {readonly string[]} args */
function parse(args) {
  const text = /** @type {const} */ ({ type: "string" });
  const flag = /** @type {const} */ ({ type: "boolean" });
  try {
    return parseArgs({
      args: [...args],
      options: {
        ...{
          inputs: text,
          seed: text,
          from: text,
          lanes: text,
          settle: text,
          json: text,
          verbose: flag,
          help: flag,
        },
        only: { type: "string", multiple: true },
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
