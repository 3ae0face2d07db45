import type { Toolset } from "@trunkline/sdk";
import type { Command } from "commander";
import { TrunklineError } from "../core/error.js";
import { LIMITS } from "../core/limits.js";
import { withClient, type ClientContext } from "./client-context.js";
import { policyText, timeText, toolsDocument } from "./documents.js";
import { readText, STDIN } from "./input-text.js";
import { jsonTime } from "./json-document.js";
import { showList, type Listing } from "./listing.js";
import { wholeNumber } from "./option-values.js";
import type { Output } from "./output.js";
import { LIST_LIMIT, pageSizeFor } from "./take.js";
import { parseToolsetFile } from "./toolset-file.js";

const PUT_EXAMPLE = `
The file is JSON:
  { "id": "crm",
    "tools": {
      "crm.find_customer": {
        "description": "Finds a customer by e-mail",
        "input": { "type": "object", "required": ["email"],
                   "properties": { "email": { "type": "string" } } },
        "policy": { "attemptTimeout": "30s" } } } }

Example:
  $ trunkline toolset put crm.json
  crm version 1`;

const LIST_EXAMPLE = `
Example:
  $ trunkline toolset list`;

const SHOW_EXAMPLE = `
Example:
  $ trunkline toolset show crm
  $ trunkline toolset show crm --at 1 --json > crm.json`;

/** Adds `trunkline toolset`: declarations of tools. */
export function addToolset(program: Command): void {
  const toolset = program.command("toolset").description("declare tools: put, list and show sets of them");
  toolset
    .command("put")
    .description("make a toolset, or a new version of it; runs that were made before keep theirs")
    .argument("<file>", "JSON file, - for standard input")
    .option("--id <id>", "the toolset's id (default: the file's)")
    .addHelpText("after", PUT_EXAMPLE)
    .action(async (file: string, flags: PutFlags, command: Command) => {
      await withClient(command, (context) => put(context, file, flags));
    });
  toolset
    .command("list")
    .description("show all toolsets at their current versions")
    .option("--limit <n>", limitText, wholeNumber("--limit", 1, LIST_LIMIT.max))
    .addHelpText("after", LIST_EXAMPLE)
    .action(async ({ limit = LIST_LIMIT.default }: ListFlags, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        await showList(output, await client.toolsets.list({ pageSize: pageSizeFor(limit) }), limit, TOOLSETS);
      });
    });
  toolset
    .command("show")
    .description("show one toolset with its tools; with --json in the form that put reads")
    .argument("<id>", "the toolset's id")
    .option(
      "--at <version>",
      "an earlier version (default: the current one)",
      wholeNumber("--at", 1, MAX_VERSION),
    )
    .addHelpText("after", SHOW_EXAMPLE)
    .action(async (id: string, { at }: ShowFlags, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        show(output, await client.toolsets.get(id, at));
      });
    });
}

const limitText = `how many to show (default: ${LIST_LIMIT.default})`;
const MAX_VERSION = 2 ** 31 - 1;

interface PutFlags {
  readonly id?: string;
}

interface ListFlags {
  readonly limit?: number;
}

interface ShowFlags {
  readonly at?: number;
}

const TOOLSETS: Listing<Toolset> = {
  columns: [{ title: "ID", whole: true }, { title: "VERSION" }, { title: "TOOLS" }, { title: "MADE" }],
  row: ({ id, version, tools, createdAt }) => [
    id,
    String(version),
    Object.keys(tools).join(" "),
    timeText(createdAt),
  ],
  document: ({ id, version, tools, createdAt }) => ({
    ...{ id, version, createdAt: jsonTime(createdAt) },
    tools: toolsDocument(tools),
  }),
  none: "no toolsets",
};

async function put({ client, output }: ClientContext, file: string, flags: PutFlags): Promise<void> {
  const source = file === STDIN ? "standard input" : file;
  const declared = parseToolsetFile(await readText(file, "FILE", LIMITS.frameBytes), source);
  const id = flags.id ?? declared.id;
  if (id === undefined) {
    throw new TrunklineError("INVALID_FIELD", `${source}: has no "id"; write one there, or give --id`, {
      metadata: { field: "id" },
    });
  }
  const { version, changed, createdAt } = await client.toolsets.put(id, declared.tools);
  output.answer(
    { id, version, changed, createdAt: jsonTime(createdAt) },
    `${id} version ${version}${changed ? "" : " (unchanged)"}`,
  );
}

function show(output: Output, toolset: Toolset): void {
  if (output.json) {
    output.document({ id: toolset.id, tools: toolsDocument(toolset.tools) });
    return;
  }
  const { id, version, createdAt } = toolset;
  output.fields([
    ["id", id],
    ["version", String(version)],
    ["made", timeText(createdAt)],
  ]);
  const rows = Object.entries(toolset.tools).map(([name, { description, executor, policy }]) => [
    name,
    executor ?? "worker",
    description,
    policyText(policy),
  ]);
  output.table(
    [{ title: "TOOL", whole: true }, { title: "EXECUTOR" }, { title: "DESCRIPTION" }, { title: "POLICY" }],
    rows,
  );
}
