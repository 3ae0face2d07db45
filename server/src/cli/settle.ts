import { rawJson, type Settlement } from "@trunkline/sdk";
import type { Command } from "commander";
import { TrunklineError } from "../core/error.js";
import { LIMITS } from "../core/limits.js";
import { withClient } from "./client-context.js";
import { readPayload } from "./input-text.js";
import { wholeNumber } from "./option-values.js";

const EXAMPLE = `
The same settlement again is fine; another one of a call that has ended is refused.

Example:
  $ trunkline settle $RUN/3 --result '{"approved":true}'
  $ trunkline settle $RUN/3 --error 'the printer is on fire' --retryable --attempt 2`;

interface SettleFlags {
  readonly result?: string;
  readonly error?: string;
  readonly data?: string;
  readonly retryable?: boolean;
  readonly attempt?: number;
}

const MAX_ATTEMPT = 2 ** 31 - 1;

/** Adds `trunkline settle`: ends a call by its id, from the harness's side. */
export function addSettle(program: Command): void {
  program
    .command("settle")
    .description("end a call by its id, with a result or an error")
    .argument("<id>", "the call's id, RUN/SEQ")
    .option("--result <json>", "the result as JSON text, - for standard input")
    .option("--error <message>", "what went wrong")
    .option("--data <json>", "with --error: more about it, as JSON text")
    .option("--retryable", "with --error: another attempt makes sense")
    .option(
      "--attempt <n>",
      "only this attempt (default: the last one)",
      wholeNumber("--attempt", 0, MAX_ATTEMPT),
    )
    .addHelpText("after", EXAMPLE)
    .action(async (id: string, flags: SettleFlags, command: Command) => {
      const settlement = await settlementOf(flags);
      await withClient(command, async ({ client, output }) => {
        const state = await client.calls.settle(id, settlement);
        output.answer({ id, state }, `${id} ${state}`);
      });
    });
}

async function settlementOf({ result, error, data, retryable, attempt }: SettleFlags): Promise<Settlement> {
  const which = attempt === undefined ? {} : { attempt };
  if (result !== undefined && error === undefined) {
    const stray = data === undefined ? (retryable === true ? "--retryable" : undefined) : "--data";
    if (stray !== undefined) throw new TrunklineError("INVALID_FIELD", `${stray}: goes with --error only`);
    return { type: "tool.result", result: rawJson(await readPayload(result, "--result")), ...which };
  }
  if (error === undefined || result !== undefined) {
    const said = error === undefined ? "neither is given" : "both are given";
    throw new TrunklineError("INVALID_FIELD", `--result, --error: ${said}; give one of them`);
  }
  const more =
    data === undefined ? {} : { data: rawJson(await readPayload(data, "--data", LIMITS.failureDataBytes)) };
  return { type: "tool.error", error: { message: error, ...more }, retryable: retryable ?? false, ...which };
}
