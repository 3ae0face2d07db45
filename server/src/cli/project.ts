import type { Project } from "@trunkline/sdk";
import type { Command } from "commander";
import { withClient } from "./client-context.js";
import { timeText } from "./documents.js";
import { jsonTime, type Json } from "./json-document.js";
import { showList, type Listing } from "./listing.js";
import { filledText, wholeNumber } from "./option-values.js";
import { LIST_LIMIT, pageSizeFor } from "./take.js";

const CREATE_EXAMPLE = `
For the root key, TRUNKLINE_ROOT_KEY of the server. \`trunkline init --project NAME\` makes one, with its first key,
on the database itself.

Example:
  $ trunkline project create acme
  acme
  $ trunkline key create admin --scope admin --project acme`;

const LIST_EXAMPLE = `
Example:
  $ trunkline project list`;

interface ListFlags {
  readonly limit?: number;
}

/** Adds `trunkline project`: tenants of a server. */
export function addProject(program: Command): void {
  const project = program
    .command("project")
    .description("make and list projects, which share a server and nothing else; with the root key");
  project
    .command("create")
    .description("make a project; again is fine")
    .argument("<name>", "its name", filledText("NAME"))
    .addHelpText("after", CREATE_EXAMPLE)
    .action(async (name: string, _flags: object, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        const made = await client.projects.create(name);
        output.answer(projectDocument(made), made.name);
      });
    });
  project
    .command("list")
    .description("show projects by name")
    .option(
      "--limit <n>",
      `how many to show (default: ${LIST_LIMIT.default})`,
      wholeNumber("--limit", 1, LIST_LIMIT.max),
    )
    .addHelpText("after", LIST_EXAMPLE)
    .action(async ({ limit = LIST_LIMIT.default }: ListFlags, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        await showList(output, await client.projects.list({ pageSize: pageSizeFor(limit) }), limit, PROJECTS);
      });
    });
}

const PROJECTS: Listing<Project> = {
  columns: [{ title: "NAME", whole: true }, { title: "MADE" }],
  row: ({ name, createdAt }) => [name, timeText(createdAt)],
  document: projectDocument,
  none: "no projects",
};

function projectDocument({ name, createdAt }: Project): Json {
  return { name, createdAt: jsonTime(createdAt) };
}
