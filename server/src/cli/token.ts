import type { ProjectChoice, RotateOptions, TokenScope } from "@trunkline/sdk";
import type { Command } from "commander";
import { withClient } from "./client-context.js";
import { timeText } from "./documents.js";
import { jsonTime } from "./json-document.js";
import { addScope, durationText, filledText, PROJECT_HELP, TOKEN_SCOPES } from "./option-values.js";

const CREATE_EXAMPLE = `
Prints the token alone: a JWT, which clients give as a key. Any API key can make one, for what it may do itself.

Example:
  $ trunkline token create --namespace user-42 --scope harness --ttl 15m
  $ TOKEN=$(trunkline token create --namespace user-42 --scope worker --scope harness)`;

const REVOKE_EXAMPLE = `
Streams that it has open end within 30 s.

Example:
  $ trunkline token revoke 0b615f0c2a9be1d74c3388aa
  0b615f0c2a9be1d74c3388aa revoked`;

const ROTATE_EXAMPLE = `
Makes all tokens of the project useless that were made before.

Example:
  $ trunkline token rotate-signing-key --grace 1h
  tokens are signed with a new key; those of the old one stay good for 1h at most`;

interface CreateFlags extends ProjectChoice {
  readonly namespace: string;
  readonly scope: readonly TokenScope[];
  readonly run?: string;
  readonly ttl?: string;
}

/** Adds `trunkline token`: signed tokens of end users. */
export function addToken(program: Command): void {
  const token = program
    .command("token")
    .description("make and revoke tokens, each of which reaches the calls of one end user alone");
  addCreate(token);
  token
    .command("revoke")
    .description("make one token useless before it expires; again is fine")
    .argument("<id>", "the id with which it was made, not the token itself", filledText("ID"))
    .option("--project <name>", PROJECT_HELP, filledText("--project"))
    .addHelpText("after", REVOKE_EXAMPLE)
    .action(async (id: string, flags: ProjectChoice, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        await client.tokens.revoke(id, flags);
        output.answer({ id, revoked: true }, `${id} revoked`);
      });
    });
  token
    .command("rotate-signing-key")
    .description("sign tokens with a new key from now on")
    .option(
      "--grace <duration>",
      "how long tokens of the old key stay good, such as 1h, at most 30d (default: they are useless at once)",
      durationText("--grace"),
    )
    .option("--project <name>", PROJECT_HELP, filledText("--project"))
    .addHelpText("after", ROTATE_EXAMPLE)
    .action(async (flags: RotateOptions, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        await client.tokens.rotateSigningKey(flags);
        const { grace } = flags;
        const rest = grace === undefined ? "are useless now" : `stay good for ${grace} at most`;
        const text = `tokens are signed with a new key; those of the old one ${rest}`;
        output.answer({ rotated: true, grace: grace ?? null }, text);
      });
    });
}

function addCreate(token: Command): void {
  token
    .command("create")
    .description("make a token for one end user")
    .requiredOption("--namespace <name>", "the end user", filledText("--namespace"))
    .requiredOption(
      "--scope <scope>",
      "what it may do there: worker (claim and answer calls), harness (open and settle them); may be repeated",
      addScope(TOKEN_SCOPES),
    )
    .option("--run <id>", "only this run (default: all runs of the end user)", filledText("--run"))
    .option("--ttl <duration>", "how long it is good, such as 15m (default: 1h)", durationText("--ttl"))
    .option("--project <name>", PROJECT_HELP, filledText("--project"))
    .addHelpText("after", CREATE_EXAMPLE)
    .action(async ({ scope, ...flags }: CreateFlags, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        const made = await client.tokens.create({ ...flags, scopes: scope });
        const { id, expiresAt } = made;
        output.answer({ id, token: made.token, expiresAt: jsonTime(expiresAt) }, made.token);
        if (!output.json)
          output.note(`token ${id}: it is shown this once, and expires at ${timeText(expiresAt)}`);
      });
    });
}
