import type { RunInfo, RunState } from "@trunkline/sdk";
import type { Command } from "commander";
import { withClient } from "./client-context.js";
import { labelsText, runDocument, timeText } from "./documents.js";
import { showList, type Listing } from "./listing.js";
import { addLabel, durationText, filledText, refuse, wholeNumber, type Labels } from "./option-values.js";
import type { Fields } from "./output.js";
import { addWatch } from "./run-watch.js";
import { LIST_LIMIT, pageSizeFor } from "./take.js";

const CREATE_EXAMPLE = `
Prints the run's id.

Example:
  $ RUN=$(trunkline run create --namespace user-17 --toolset crm --label job=nightly --ttl 1h)
  $ trunkline call crm.find_customer '{"email":"ada@example.com"}' --run $RUN`;

const LIST_EXAMPLE = `
Example:
  $ trunkline run list --state active --label job=nightly`;

const SHOW_EXAMPLE = `
Example:
  $ trunkline run show 0198c0de-0000-7000-8000-000000000000`;

const END_EXAMPLE = `
Example:
  $ trunkline run end 0198c0de-0000-7000-8000-000000000000`;

interface CreateFlags {
  readonly namespace?: string;
  readonly toolset?: string;
  readonly label?: Labels;
  readonly ttl?: string;
  readonly key?: string;
}

interface ListFlags {
  readonly namespace?: string;
  readonly state?: RunState;
  readonly label?: Labels;
  readonly limit?: number;
}

/** Adds `trunkline run`: executions of harnesses, in which calls are opened. */
export function addRun(program: Command): void {
  const run = program
    .command("run")
    .description("make, list, show, watch and end runs, in which calls are opened");
  addCreate(run);
  addList(run);
  run
    .command("show")
    .description("show one run")
    .argument("<id>", "the run's id")
    .addHelpText("after", SHOW_EXAMPLE)
    .action(async (id: string, _flags: object, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        const found = await client.runs.get(id);
        const { calls, openCalls } = found;
        if (output.json) output.document({ ...runDocument(found), calls, openCalls });
        else output.fields([...fieldsOf(found), ["calls", `${calls}, ${openCalls} open`]]);
      });
    });
  addWatch(run);
  run
    .command("end")
    .description("end a run: its open calls are canceled, and it takes no more; again is fine")
    .argument("<id>", "the run's id")
    .addHelpText("after", END_EXAMPLE)
    .action(async (id: string, _flags: object, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        const ended = await client.runs.end(id);
        output.answer(runDocument(ended), `${ended.id} ${ended.state}`);
      });
    });
}

function addCreate(run: Command): void {
  run
    .command("create")
    .description("make a run")
    .option(
      "--namespace <name>",
      "the end user that it acts for (default: default)",
      filledText("--namespace"),
    )
    .option(
      "--toolset <id>",
      "the toolset whose tools it may call (default: any tool, without a schema)",
      filledText("--toolset"),
    )
    .option("--label <name=value>", "a label; may be repeated", addLabel)
    .option(
      "--ttl <duration>",
      "end it after this long, such as 1h30m (default: never)",
      durationText("--ttl"),
    )
    .option("--key <key>", "your own name for it: the same key again names the same run", filledText("--key"))
    .addHelpText("after", CREATE_EXAMPLE)
    .action(async ({ label, ...flags }: CreateFlags, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        const { id, info } = await client.runs.create({ ...flags, ...(label && { labels: label }) });
        if (output.json && info !== undefined) output.document(runDocument(info));
        else output.line(id);
      });
    });
}

function addList(run: Command): void {
  run
    .command("list")
    .description("show runs, newest first")
    .option("--namespace <name>", "only runs of this end user", filledText("--namespace"))
    .option("--state <state>", "only runs that are active, or ended", readState)
    .option("--label <name=value>", "only runs with this label; may be repeated", addLabel)
    .option(
      "--limit <n>",
      `how many to show (default: ${LIST_LIMIT.default})`,
      wholeNumber("--limit", 1, LIST_LIMIT.max),
    )
    .addHelpText("after", LIST_EXAMPLE)
    .action(async ({ label, limit = LIST_LIMIT.default, ...filter }: ListFlags, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        const pageSize = pageSizeFor(limit);
        const runs = await client.runs.list({ ...filter, ...(label && { labels: label }), pageSize });
        await showList(output, runs, limit, RUNS);
      });
    });
}

function readState(text: string): RunState {
  if (text === "active" || text === "ended") return text;
  throw refuse("--state", text, "active, ended");
}

function toolsetText({ toolset, toolsetVersion }: RunInfo): string {
  return toolset === undefined ? "" : `${toolset}@${toolsetVersion ?? ""}`;
}

const RUNS: Listing<RunInfo> = {
  columns: [
    { title: "ID", whole: true },
    { title: "STATE" },
    { title: "NAMESPACE" },
    { title: "TOOLSET" },
    { title: "MADE" },
    { title: "LABELS" },
  ],
  row: (run) => [
    run.id,
    run.state,
    run.namespace,
    toolsetText(run),
    timeText(run.createdAt),
    labelsText(run.labels),
  ],
  document: runDocument,
  none: "no runs",
};

const present = (text: string): string | undefined => (text === "" ? undefined : text);

function fieldsOf(run: RunInfo): Fields {
  return [
    ["id", run.id],
    ["key", run.key],
    ["state", run.state],
    ["namespace", run.namespace],
    ["toolset", present(toolsetText(run))],
    ["labels", present(labelsText(run.labels))],
    ["made", timeText(run.createdAt)],
    ["expires", present(timeText(run.expiresAt))],
    ["ended", present(timeText(run.endedAt))],
  ];
}
