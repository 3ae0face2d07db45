import type { KeyInfo, KeyScope, NewKey, ProjectChoice, RotateOptions } from "@trunkline/sdk";
import type { Command } from "commander";
import { withClient } from "./client-context.js";
import { timeText } from "./documents.js";
import { jsonTime, type Json } from "./json-document.js";
import { showList, type Listing } from "./listing.js";
import {
  addScope,
  durationText,
  filledText,
  KEY_SCOPES,
  PROJECT_HELP,
  wholeNumber,
} from "./option-values.js";
import type { Output } from "./output.js";
import { LIST_LIMIT, pageSizeFor } from "./take.js";

const CREATE_EXAMPLE = `
Prints the key alone. The server keeps a hash of it: it cannot be shown again.

Example:
  $ trunkline key create billing --scope worker
  $ KEY=$(trunkline key create agent --scope harness --scope admin)`;

const LIST_EXAMPLE = `
Example:
  $ trunkline key list`;

const REVOKE_EXAMPLE = `
Streams that it has open end within 30 s.

Example:
  $ trunkline key revoke 5f0c2a9be1d74c3388aa0b61
  5f0c2a9be1d74c3388aa0b61 revoked`;

const ROTATE_EXAMPLE = `
Prints the new key alone; its id, name and scopes stay.

Example:
  $ KEY=$(trunkline key rotate 5f0c2a9be1d74c3388aa0b61 --grace 24h)`;

interface CreateFlags extends ProjectChoice {
  readonly scope: readonly KeyScope[];
}

interface ListFlags extends ProjectChoice {
  readonly limit?: number;
}

/** Adds `trunkline key`: API keys of a project. */
export function addKey(program: Command): void {
  const key = program.command("key").description("make, list, revoke and rotate the API keys of a project");
  addCreate(key);
  addList(key);
  key
    .command("revoke")
    .description("make a key useless; again is fine")
    .argument("<id>", "the key's id, not the key itself", filledText("ID"))
    .option("--project <name>", PROJECT_HELP, filledText("--project"))
    .addHelpText("after", REVOKE_EXAMPLE)
    .action(async (id: string, flags: ProjectChoice, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        const revoked = await client.keys.revoke(id, flags);
        output.answer(keyDocument(revoked), `${revoked.id} revoked`);
      });
    });
  key
    .command("rotate")
    .description("give a key another secret")
    .argument("<id>", "the key's id, not the key itself", filledText("ID"))
    .option(
      "--grace <duration>",
      "how long the old secret stays good, such as 24h, at most 30d (default: it is useless at once)",
      durationText("--grace"),
    )
    .option("--project <name>", PROJECT_HELP, filledText("--project"))
    .addHelpText("after", ROTATE_EXAMPLE)
    .action(async (id: string, flags: RotateOptions, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        showNewKey(output, await client.keys.rotate(id, flags));
      });
    });
}

/** Prints a key that is shown this once. */
export function showNewKey(output: Output, made: NewKey): void {
  output.answer({ ...keyDocument(made), key: made.key }, made.key);
  if (!output.json)
    output.note(`key ${made.id}, ${made.scopes.join(" ")}: it is shown this once; store it now`);
}

function addCreate(key: Command): void {
  key
    .command("create")
    .description("make a key")
    .argument("<name>", "for people, to know it by", filledText("NAME"))
    .requiredOption(
      "--scope <scope>",
      "what it may do: worker (claim and answer calls), harness (open and settle them), admin (make keys); may be repeated",
      addScope(KEY_SCOPES),
    )
    .option("--project <name>", PROJECT_HELP, filledText("--project"))
    .addHelpText("after", CREATE_EXAMPLE)
    .action(async (name: string, { scope, ...project }: CreateFlags, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        showNewKey(output, await client.keys.create({ name, scopes: scope, ...project }));
      });
    });
}

function addList(key: Command): void {
  key
    .command("list")
    .description("show keys by id, revoked ones as well; never the keys themselves")
    .option("--project <name>", PROJECT_HELP, filledText("--project"))
    .option(
      "--limit <n>",
      `how many to show (default: ${LIST_LIMIT.default})`,
      wholeNumber("--limit", 1, LIST_LIMIT.max),
    )
    .addHelpText("after", LIST_EXAMPLE)
    .action(async ({ limit = LIST_LIMIT.default, ...project }: ListFlags, command: Command) => {
      await withClient(command, async ({ client, output }) => {
        const keys = await client.keys.list({ ...project, pageSize: pageSizeFor(limit) });
        await showList(output, keys, limit, KEYS);
      });
    });
}

const KEYS: Listing<KeyInfo> = {
  columns: [
    { title: "ID", whole: true },
    { title: "NAME" },
    { title: "SCOPES" },
    { title: "MADE" },
    { title: "LAST USED" },
    { title: "REVOKED" },
  ],
  row: ({ id, name, scopes, createdAt, lastUsedAt, revokedAt }) => [
    ...[id, name, scopes.join(" ")],
    ...[timeText(createdAt), timeText(lastUsedAt), timeText(revokedAt)],
  ],
  document: keyDocument,
  none: "no keys",
};

function keyDocument({
  id,
  name,
  scopes,
  createdAt,
  lastUsedAt,
  revokedAt,
}: KeyInfo): Readonly<Record<string, Json>> {
  return {
    ...{ id, name, scopes },
    createdAt: jsonTime(createdAt),
    lastUsedAt: jsonTime(lastUsedAt),
    revokedAt: jsonTime(revokedAt),
  };
}
