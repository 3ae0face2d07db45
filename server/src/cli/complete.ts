import { rawJson } from "@trunkline/sdk";
import type { Command } from "commander";
import { withClient } from "./client-context.js";
import { readPayload } from "./input-text.js";
import { readToken, TOKEN_HELP } from "./token-argument.js";

const EXAMPLE = `
The same result again is fine.

Example:
  $ trunkline complete "$TOKEN" '{"answer":"yes"}'
  $ trunkline complete - '{"answer":"yes"}' < token.txt`;

/** Adds `trunkline complete`: answers a deferred call by its token. */
export function addComplete(program: Command): void {
  program
    .command("complete")
    .description("end a deferred call by its token, with a result")
    .argument("<token>", TOKEN_HELP)
    .argument("[json]", "the result as JSON text, - for standard input (default: null)")
    .addHelpText("after", EXAMPLE)
    .action(async (given: string, json: string | undefined, _flags: object, command: Command) => {
      const token = await readToken(given, json);
      const result = rawJson(await readPayload(json ?? "null", "result"));
      await withClient(command, async ({ client, output }) => {
        const { callId: id } = await client.tasks.complete(token, result);
        output.answer({ id, state: "succeeded" }, `${id} succeeded`);
      });
    });
}
