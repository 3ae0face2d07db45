import { rawJson } from "@trunkline/sdk";
import type { Command } from "commander";
import { LIMITS } from "../core/limits.js";
import { withClient } from "./client-context.js";
import { readPayload } from "./input-text.js";
import { readToken, TOKEN_HELP } from "./token-argument.js";

const EXAMPLE = `
Example:
  $ trunkline fail "$TOKEN" 'the customer declined' --data '{"reason":"price"}'`;

interface FailFlags {
  readonly data?: string;
  readonly retryable?: boolean;
}

/** Adds `trunkline fail`: fails a deferred call by its token. */
export function addFail(program: Command): void {
  program
    .command("fail")
    .description("end a deferred call by its token, with an error")
    .argument("<token>", TOKEN_HELP)
    .argument("<message>", "what went wrong")
    .option("--data <json>", "more about it, as JSON text, - for standard input")
    .option("--retryable", "another attempt makes sense")
    .addHelpText("after", EXAMPLE)
    .action(async (given: string, message: string, flags: FailFlags, command: Command) => {
      const { data, retryable = false } = flags;
      const token = await readToken(given, data);
      const more =
        data === undefined
          ? {}
          : { data: rawJson(await readPayload(data, "--data", LIMITS.failureDataBytes)) };
      await withClient(command, async ({ client, output }) => {
        const { callId: id, state } = await client.tasks.fail(token, { message, retryable, ...more });
        output.answer({ id, state }, `${id} ${state}`);
      });
    });
}
