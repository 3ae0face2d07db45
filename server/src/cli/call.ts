import { setTimeout } from "node:timers/promises";
import {
  rawJson,
  type CallHandle,
  type Outcome,
  type Policy,
  type Run,
  type Trunkline,
} from "@trunkline/sdk";
import type { Command } from "commander";
import { TrunklineError } from "../core/error.js";
import { withClient, type ClientContext } from "./client-context.js";
import { outcomeDocument } from "./documents.js";
import { readPayload } from "./input-text.js";
import { addLabel, durationText, filledText, wholeNumber, type Labels } from "./option-values.js";
import type { Output } from "./output.js";
import { listenForStop } from "./stop-signals.js";

const EXAMPLE = `
Prints the result's JSON text as it was answered. A call that does not succeed gives a line on
standard error and status 1. Ctrl-C cancels the call. Without --run a run is made for this one
call, and ended after it.

Example:
  $ trunkline call crm.find_customer '{"email":"ada@example.com"}' --toolset crm
  {"id":17,"name":"Ada"}
  $ trunkline call report.build - --run $RUN --timeout 10m < input.json`;

interface CallFlags {
  readonly run?: string;
  readonly namespace?: string;
  readonly toolset?: string;
  readonly label?: Labels;
  readonly key?: string;
  readonly turn?: number;
  readonly priority?: number;
  readonly timeout?: string;
  readonly attemptTimeout?: string;
  readonly maxAttempts?: number;
  readonly atMostOnce?: boolean;
}

const MAX_TURN = 2 ** 31 - 1;
/** How long an interrupted open may still take: its call may run already, and is then named. */
const OPEN_GRACE_MS = 1_000;
const MAX_ATTEMPTS = 1_000;

/** Adds `trunkline call`: opens one call and waits for its end. */
export function addCall(program: Command): void {
  program
    .command("call")
    .description("call a tool and wait for its result")
    .argument("<tool>", "the tool's name")
    .argument("[json]", "input as JSON text, - for standard input (default: {})")
    .option("--run <id>", "the run in which to call (default: one for this call alone)", filledText("--run"))
    .option(
      "--namespace <name>",
      "the end user that the call's own run acts for (default: default)",
      filledText("--namespace"),
    )
    .option(
      "--toolset <id>",
      "the toolset of the call's own run (default: any tool, without a schema)",
      filledText("--toolset"),
    )
    .option("--label <name=value>", "a label of the call's own run; may be repeated", addLabel)
    .option(
      "--key <key>",
      "your own name for the call: the same key again names the same call",
      filledText("--key"),
    )
    .option("--turn <n>", "the turn that it belongs to", wholeNumber("--turn", 0, MAX_TURN))
    .option("--priority <n>", "higher is claimed first, -100 to 100 (default: 0)", readPriority)
    .option(
      "--timeout <duration>",
      "how long the call may take, such as 30s (default: no limit)",
      durationText("--timeout"),
    )
    .option(
      "--attempt-timeout <duration>",
      "how long one attempt may take",
      durationText("--attempt-timeout"),
    )
    .option(
      "--max-attempts <n>",
      "how many attempts may start",
      wholeNumber("--max-attempts", 1, MAX_ATTEMPTS),
    )
    .option("--at-most-once", "never start it twice, even where a worker is lost")
    .addHelpText("after", EXAMPLE)
    .action(async (tool: string, json: string | undefined, flags: CallFlags, command: Command) => {
      refuseRunFlags(flags);
      const input = await readPayload(json ?? "{}", "input");
      await withClient(command, (context) => call(context, { tool, input, flags }));
    });
}

interface Request {
  readonly tool: string;
  /** JSON text. */
  readonly input: string;
  readonly flags: CallFlags;
}

function readPriority(text: string): number {
  const value = /^-?(0|[1-9][0-9]?|100)$/.test(text) ? Number(text) : NaN;
  if (!Number.isNaN(value)) return value;
  throw new TrunklineError("INVALID_FIELD", `--priority: ${JSON.stringify(text)}; allowed are -100 to 100`);
}

/** A run that is there already has them, and a call cannot change them. */
function refuseRunFlags({ run, namespace, toolset, label }: CallFlags): void {
  const given = Object.entries({ namespace, toolset, label }).find(([, value]) => value !== undefined);
  if (run === undefined || given === undefined) return;
  throw new TrunklineError(
    "INVALID_FIELD",
    `--${given[0]}: belongs to the run that --run names; leave it out`,
  );
}

async function call({ client, output }: ClientContext, request: Request): Promise<void> {
  const { flags } = request;
  const run = flags.run === undefined ? await makeRun(client, flags) : await findRun(client, flags.run);
  const signals = listenForStop();
  const interrupted = signals.first.then(() => undefined);
  try {
    // The server may be away from here on, and an open waits for it.
    const opening = open(run, request);
    const handle = (await Promise.race([opening, interrupted])) ?? (await atOnce(opening));
    const outcome = await Promise.race([handle?.outcome(), interrupted]);
    if (outcome !== undefined) report(output, outcome);
    else if (handle !== undefined) await cancel(handle, output);
    else tellInterrupted(output, "interrupted before the server said that it has the call", {});
  } finally {
    if (flags.run === undefined) await run.end();
    signals.dispose();
  }
}

/** What is about to come, or undefined when it does not come soon: so that a call that runs can be named. */
async function atOnce<T>(coming: Promise<T>): Promise<T | undefined> {
  const enough = new AbortController();
  const soon = setTimeout(OPEN_GRACE_MS, undefined, { signal: enough.signal });
  soon.catch(() => undefined);
  return Promise.race([coming, soon]).finally(() => enough.abort());
}

function makeRun(client: Trunkline, { namespace, toolset, label }: CallFlags): Promise<Run> {
  return client.runs.create({
    ...(namespace !== undefined && { namespace }),
    ...(toolset !== undefined && { toolset }),
    ...(label !== undefined && { labels: label }),
  });
}

/** Asks for it first: an open waits for ever for a server that is not there, a request does not. */
async function findRun(client: Trunkline, id: string): Promise<Run> {
  return client.runs.open((await client.runs.get(id)).id);
}

function open(run: Run, { tool, input, flags }: Request): Promise<CallHandle> {
  const { key, turn, priority } = flags;
  return run.open(tool, rawJson(input), {
    policy: policyOf(flags),
    ...(key !== undefined && { key }),
    ...(turn !== undefined && { turn }),
    ...(priority !== undefined && { priority }),
  });
}

function policyOf({ timeout, attemptTimeout, maxAttempts, atMostOnce }: CallFlags): Policy {
  return {
    ...(timeout !== undefined && { totalTimeout: timeout }),
    ...(attemptTimeout !== undefined && { attemptTimeout }),
    ...(maxAttempts !== undefined && { maxAttempts }),
    ...(atMostOnce === true && { mode: "at_most_once" }),
  };
}

async function cancel(handle: CallHandle, output: Output): Promise<void> {
  const state = await handle.cancel();
  tellInterrupted(output, `interrupted; call ${handle.id} is ${state}`, { id: handle.id, state });
}

function tellInterrupted(output: Output, message: string, metadata: Readonly<Record<string, string>>): void {
  if (output.json) output.errorDocument({ reason: "CANCELED", message, metadata });
  else output.error(message);
  process.exitCode = 1;
}

function report(output: Output, outcome: Outcome): void {
  if (outcome.state !== "succeeded") process.exitCode = 1;
  if (output.json) {
    output.document(outcomeDocument(outcome));
  } else if (outcome.state === "succeeded") {
    output.jsonText(outcome.resultJson);
  } else {
    const { tool, state, callId, error } = outcome;
    const doubt = error.outcomeUnknown ? "; it may have run, nobody can know" : "";
    output.error(`${tool} ${state}: ${error.message} (${error.kind}${doubt}; call ${callId})`);
  }
}
