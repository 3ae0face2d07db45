import type { Call, CallState } from "@trunkline/sdk";
import type { Command } from "commander";
import { withClient } from "./client-context.js";
import { callDocument, labelsText, policyText, timeText } from "./documents.js";
import { showList, type Listing } from "./listing.js";
import { addLabel, addState, filledText, wholeNumber, type Labels } from "./option-values.js";
import type { Fields } from "./output.js";
import { LIST_LIMIT, pageSizeFor } from "./take.js";

const LIST_EXAMPLE = `
Example:
  $ trunkline calls list --state queued --state claimed --tool crm.find_customer
  $ trunkline calls list --state failed --limit 1000 --json`;

const SHOW_EXAMPLE = `
Example:
  $ trunkline calls show 0198c0de-0000-7000-8000-000000000000/1`;

const CANCEL_EXAMPLE = `
A call that has ended is left as it is, and its state is printed.

Example:
  $ trunkline calls cancel 0198c0de-0000-7000-8000-000000000000/1
  0198c0de-0000-7000-8000-000000000000/1 canceled`;

interface ListFlags {
  readonly run?: string;
  readonly state?: readonly CallState[];
  readonly tool?: string;
  readonly namespace?: string;
  readonly label?: Labels;
  readonly turn?: number;
  readonly payloads?: boolean;
  readonly limit?: number;
}

const MAX_TURN = 2 ** 31 - 1;

/** Adds `trunkline calls`: calls as they stand. */
export function addCalls(program: Command): void {
  const calls = program.command("calls").description("list, show and cancel calls");
  addList(calls);
  calls
    .command("show")
    .description("show one call with its input, result, failure and attempts")
    .argument("<id>", "the call's id, RUN/SEQ")
    .addHelpText("after", SHOW_EXAMPLE)
    .action(async (id: string, _flags: object, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        const call = await client.calls.get(id);
        if (output.json) output.document(callDocument(call, true));
        else output.fields(fieldsOf(call));
      });
    });
  calls
    .command("cancel")
    .description("cancel a call, wherever it is")
    .argument("<id>", "the call's id, RUN/SEQ")
    .addHelpText("after", CANCEL_EXAMPLE)
    .action(async (id: string, _flags: object, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        const state = await client.calls.cancel(id);
        output.answer({ id, state }, `${id} ${state}`);
      });
    });
}

function addList(calls: Command): void {
  calls
    .command("list")
    .description("show calls, newest first")
    .option("--run <id>", "only calls of this run", filledText("--run"))
    .option(
      "--state <state>",
      "only calls in this state: queued, claimed, deferred, succeeded, failed, canceled; may be repeated",
      addState,
    )
    .option("--tool <name>", "only calls of this tool", filledText("--tool"))
    .option("--namespace <name>", "only calls of this end user", filledText("--namespace"))
    .option("--label <name=value>", "only calls of runs with this label; may be repeated", addLabel)
    .option("--turn <n>", "only calls of this turn", wholeNumber("--turn", 0, MAX_TURN))
    .option("--payloads", "with --json: input, result and progress too")
    .option(
      "--limit <n>",
      `how many to show (default: ${LIST_LIMIT.default})`,
      wholeNumber("--limit", 1, LIST_LIMIT.max),
    )
    .addHelpText("after", LIST_EXAMPLE)
    .action(async ({ label, limit = LIST_LIMIT.default, ...filter }: ListFlags, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        const pageSize = pageSizeFor(limit);
        const found = await client.calls.list({ ...filter, ...(label && { labels: label }), pageSize });
        await showList(output, found, limit, {
          ...CALLS,
          document: (call) => callDocument(call, filter.payloads ?? false),
        });
      });
    });
}

const CALLS: Omit<Listing<Call>, "document"> = {
  columns: [
    { title: "ID", whole: true },
    { title: "TOOL" },
    { title: "STATE" },
    { title: "NAMESPACE" },
    { title: "ATTEMPT" },
    { title: "OPENED" },
    { title: "ERROR" },
  ],
  row: (call) => [
    call.id,
    call.tool,
    call.state,
    call.namespace,
    String(call.attempt),
    timeText(call.openedAt),
    call.error?.message ?? "",
  ],
  none: "no calls",
};

const present = (text: string): string | undefined => (text === "" ? undefined : text);

const time = (at: Date | undefined): string | undefined => present(timeText(at));

function fieldsOf(call: Call): Fields {
  const { error } = call;
  return [
    ["id", call.id],
    ["key", call.key],
    ["turn", call.turn === undefined ? undefined : String(call.turn)],
    ["tool", call.tool],
    ["executor", call.executor],
    ["namespace", call.namespace],
    ["labels", present(labelsText(call.labels))],
    ["state", call.state],
    ["attempt", `${call.attempt}, ${call.spent} spent`],
    ["worker", call.worker],
    ["input", call.inputJson],
    ["progress", call.progress === undefined ? undefined : JSON.stringify(call.progress)],
    ["result", call.resultJson],
    ["error", error === undefined ? undefined : `${error.kind}: ${error.message}`],
    ["error data", error?.dataJson],
    ["outcome unknown", error?.outcomeUnknown === true ? "yes: it may have run" : undefined],
    ["policy", policyText(call.policy)],
    ...call.attempts.map((attempt): [string, string] => [
      `attempt ${attempt.number}`,
      [time(attempt.endedAt), attempt.worker, `${attempt.error.kind}: ${attempt.error.message}`]
        .filter(Boolean)
        .join("  "),
    ]),
    ["opened", time(call.openedAt)],
    ["claimed", time(call.claimedAt)],
    ["ready", time(call.readyAt)],
    ["attempt times out", time(call.attemptTimeoutAt)],
    ["call times out", time(call.totalTimeoutAt)],
    ["deferral times out", time(call.deferTimeoutAt)],
    ["ended", time(call.endedAt)],
    ["traceparent", call.traceparent],
  ];
}
