import { readFileSync } from "node:fs";
import { Command, type CommanderError, type Option } from "commander";
import pc from "picocolors";
import { addCall } from "./call.js";
import { addCalls } from "./calls.js";
import { addComplete } from "./complete.js";
import { addConformance } from "./conformance.js";
import { addDev } from "./dev.js";
import { addFail } from "./fail.js";
import { addInit } from "./init.js";
import { addKey } from "./key.js";
import { addMigrate } from "./migrate.js";
import { addProject } from "./project.js";
import { addRun } from "./run.js";
import { addServe } from "./serve.js";
import { addSettle } from "./settle.js";
import { addToken } from "./token.js";
import { addToolset } from "./toolset.js";

const EXAMPLE = `
Example:
  $ trunkline dev &
  $ trunkline call weather.get '{"city":"Berlin"}'

Exit status: 0 done, 1 failed, 2 called wrongly.`;

/** The parser takes the colours off again where they are not wanted. */
const { bold } = pc.createColors(true);

const STARTERS = ["dev", "serve", "init", "migrate", "conformance"];

/** The parser's last word: help or the version was shown, or the command line cannot be read. */
export class ParseEnd extends Error {
  override readonly name = "ParseEnd";
  readonly end: CommanderError;
  /** The command, with those that it belongs to: `trunkline toolset put`. */
  readonly command: string;

  constructor(end: CommanderError, command: string) {
    super(end.message, { cause: end });
    this.end = end;
    this.command = command;
  }
}

/** Makes the parser of the whole command line. Where it would end the process, it throws {@link ParseEnd}. */
export function makeProgram(): Command {
  const program = new Command("trunkline")
    .description("Tool calls stream to workers and come back, durably.")
    .version(readVersion(), "--version", "show the version")
    .option("--url <url>", "the server (default: http://127.0.0.1:7788; env: TRUNKLINE_URL)")
    .option(
      "--api-key <key>",
      "the server's key; better in the environment: other users of this machine can see a command line (env: TRUNKLINE_KEY)",
    )
    .option("--json", "answer for machines: a JSON document, or one a line for lists")
    .configureHelp({ showGlobalOptions: true, styleTitle: bold, visibleGlobalOptions })
    .addHelpText("after", EXAMPLE);
  const adders = [
    addDev,
    addServe,
    addInit,
    addMigrate,
    addKey,
    addToken,
    addProject,
    addToolset,
    addRun,
    addCall,
    addCalls,
    addSettle,
    addComplete,
    addFail,
    addConformance,
  ];
  for (const add of adders) add(program);
  prepare(program, "");
  return program;
}

/** Commands that start something have no server to name, and the version is of the whole. */
function visibleGlobalOptions(command: Command): Option[] {
  if (command.parent === null) return [];
  let root = command.parent;
  while (root.parent !== null) root = root.parent;
  const named = STARTERS.includes(command.name()) ? ["--json"] : ["--url", "--api-key", "--json"];
  return root.options.filter(({ long }) => named.includes(long ?? ""));
}

/** What the parser does not hand down to subcommands in the form that is needed here. */
function prepare(command: Command, above: string): void {
  const path = `${above}${command.name()}`;
  command.exitOverride((end) => {
    throw new ParseEnd(end, path);
  });
  // What is wrong is said by whoever catches the end, in one line.
  command.configureOutput({ outputError: () => undefined });
  for (const sub of command.commands) prepare(sub, `${path} `);
}

function readVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  const { version } = JSON.parse(text) as { readonly version: string }; // it is our own
  return version;
}
