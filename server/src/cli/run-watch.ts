import type { Call, RunEvent, RunInfo } from "@trunkline/sdk";
import type { Command } from "commander";
import { withClient, type ClientContext } from "./client-context.js";
import { callDocument, runDocument, timeText } from "./documents.js";
import { listenForStop } from "./stop-signals.js";

const EXAMPLE = `
First the run and its calls as they stand, then each again whenever it has changed; ends once the run and all of its
calls have ended. With --json each line is a document with a cursor, from which --cursor goes on. Ctrl-C ends it.

Example:
  $ trunkline run watch 0198c0de-0000-7000-8000-000000000000
  2026-08-01T09:00:00Z  run   0198c0de-0000-7000-8000-000000000000  active
  2026-08-01T09:00:01Z  call  0198c0de-0000-7000-8000-000000000000/1  crm.find_customer  claimed  attempt 1, crm-7`;

interface WatchFlags {
  readonly cursor?: string;
}

/** Adds `trunkline run watch`: a line for each thing that happens in a run. */
export function addWatch(run: Command): void {
  run
    .command("watch")
    .description("show what happens in a run, as it happens")
    .argument("<id>", "the run's id")
    .option("--cursor <cursor>", "go on after the event with this cursor (default: from the beginning)")
    .addHelpText("after", EXAMPLE)
    .action(async (id: string, { cursor }: WatchFlags, command: Command) => {
      await withClient(command, (context) => watch(context, id, cursor));
    });
}

async function watch(
  { client, output }: ClientContext,
  id: string,
  cursor: string | undefined,
): Promise<void> {
  // Asked for first: watching waits for ever for a server that is not there, a request does not.
  await client.runs.get(id);
  const stop = new AbortController();
  const signals = listenForStop();
  void signals.first.then(() => stop.abort());
  // A reader that has seen enough, such as `head`.
  process.stdout.once("error", () => stop.abort());
  try {
    const { signal } = stop;
    for await (const event of client.runs
      .open(id)
      .watch({ signal, ...(cursor !== undefined && { cursor }) })) {
      if (output.json) output.document(documentOf(event));
      else output.line(textOf(event));
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    signals.dispose();
  }
}

function documentOf(event: RunEvent): Parameters<ClientContext["output"]["document"]>[0] {
  const { type, cursor } = event;
  return event.type === "call"
    ? { type, call: callDocument(event.call, true), cursor }
    : { type, run: runDocument(event.run), cursor };
}

function textOf(event: RunEvent): string {
  return event.type === "call" ? callText(event.call) : runText(event.run);
}

function runText({ id, state, createdAt, endedAt }: RunInfo): string {
  return [timeText(endedAt ?? createdAt), "run ", id, state].join("  ");
}

/** When something happened to it last, as far as that is known. */
function callText({ id, tool, state, attempt, worker, error, progress, ...times }: Call): string {
  const at = times.endedAt ?? times.claimedAt ?? times.openedAt;
  const facts = [attempt > 0 && `attempt ${attempt}`, worker].filter(Boolean).join(", ");
  const open = times.endedAt === undefined;
  return [
    ...[timeText(at), "call", id, tool, state, facts],
    open && progress !== undefined ? JSON.stringify(progress) : "",
    error === undefined ? "" : `${error.kind}: ${error.message}`,
  ]
    .filter((text) => text !== "")
    .join("  ");
}
