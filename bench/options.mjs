// The command line of `npm run bench`.
import { parseArgs } from "node:util";

/**
 * @typedef {object} Options
 * @property {boolean} quick One short run of everything, for a first look.
 * @property {boolean} full Sizes that take many minutes to fill in.
 * @property {number | undefined} rows Stored or waiting calls in `growth` and `waiting`.
 * @property {string[]} scenarios Empty: all.
 * @property {string[] | undefined} peers Undefined: all; empty: none.
 * @property {string | undefined} json The file to write.
 * @property {number} runs Of each measurement; the median counts.
 * @property {number} loneCalls How many calls one at a time a run measures, 20 ms apart.
 */

const LISTS = new Set(["scenario", "peer"]);

const USAGE = `npm run bench -- [--quick | --full] [--scenario NAME...] [--peer NAME... | --peer none] [--rows N] [--json FILE]

  --quick            one short run of everything, for a first look
  --full             sizes that take many minutes to fill in
  --scenario NAME    only these (default: all)
  --peer NAME        beside these only, or beside none
  --rows N           so many stored or waiting calls in the scenarios growth and waiting
  --json FILE        writes the results there as well`;

/**
 * Reads the arguments; `--scenario a b` and `--scenario a --scenario b` are the same.
 *
 * @param {string[]} args
 * @returns {Options}
 */
export function readOptions(args) {
  const { values, tokens } = parsed(args);
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const lists = gather(tokens);
  const peers = lists.peer.length === 0 ? undefined : lists.peer.filter((name) => name !== "none");
  return {
    quick: values.quick,
    full: values.full,
    rows: values.rows === undefined ? undefined : whole(values.rows),
    scenarios: lists.scenario,
    peers,
    json: values.json,
    runs: values.quick ? 1 : 3,
    loneCalls: values.quick ? 100 : 300,
  };
}

/** @param {string[]} args */
function parsed(args) {
  try {
    return parseArgs({
      args,
      tokens: true,
      allowPositionals: true,
      options: {
        help: { type: "boolean", short: "h", default: false },
        quick: { type: "boolean", default: false },
        full: { type: "boolean", default: false },
        rows: { type: "string" },
        scenario: { type: "string", multiple: true },
        peer: { type: "string", multiple: true },
        json: { type: "string" },
      },
    });
  } catch (error) {
    refuse(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
  }
}

/** What follows a list's option belongs to it, until the next option. */
function gather(tokens) {
  const lists = { scenario: [], peer: [] };
  let current = "";
  for (const token of tokens) {
    if (token.kind === "option") {
      current = token.name;
      if (LISTS.has(current)) lists[current].push(token.value);
    } else if (token.kind === "positional") {
      if (!LISTS.has(current)) refuse(`${token.value} belongs to no option`);
      lists[current].push(token.value);
    }
  }
  return lists;
}

function whole(text) {
  const value = Number(text.replaceAll(/[_,]/g, ""));
  if (!Number.isSafeInteger(value) || value < 0) refuse(`--rows: ${text} is not a whole number`);
  return value;
}

/**
 * Ends the program: it was called wrongly.
 *
 * @param {string} message
 * @returns {never}
 */
export function refuse(message) {
  console.error(message);
  process.exit(2);
}
