import type { Command } from "commander";
import type { FirstKeySpec } from "../access/first-key.js";
import type { IssuedKey } from "../access/issue.js";
import { readDatabaseUrl } from "../config.js";
import { outputOf, refuseClientFlags } from "./client-context.js";
import { explainDatabaseError } from "./database-problem.js";
import { filledText } from "./option-values.js";

const EXAMPLE = `
Works on the database itself, so it needs no server; servers that run know the key at once. Prints the key alone.

Example:
  $ export DATABASE_URL=postgres://trunkline@db.example:5432/trunkline
  $ export TRUNKLINE_KEY=$(trunkline init)
  $ trunkline serve &
  $ trunkline key create agent --scope harness`;

const DEFAULT_PROJECT = "default";

interface InitFlags {
  readonly databaseUrl?: string;
  readonly project?: string;
  readonly force?: boolean;
}

/** Adds `trunkline init`: the first key of a project, which makes all others. */
export function addInit(program: Command): void {
  program
    .command("init")
    .description("bring a database's schema up to date, and make a project's first key, with all scopes")
    .option("--database-url <url>", "postgres://USER@HOST:PORT/NAME; better in the environment: DATABASE_URL")
    .option(
      "--project <name>",
      `the project, which is made where there is none (default: ${DEFAULT_PROJECT})`,
      filledText("--project"),
    )
    .option("--force", "make a key although the project has one with the scope admin")
    .addHelpText("after", EXAMPLE)
    .action(
      async ({ databaseUrl, project = DEFAULT_PROJECT, force = false }: InitFlags, command: Command) => {
        refuseClientFlags(command);
        const url = readDatabaseUrl(databaseUrl, process.env);
        const { key, text } = await init(url, { project, force }).catch((error: unknown) => {
          throw explainDatabaseError(error, url);
        });
        const { id, name, rights: scopes } = key;
        const output = outputOf(command);
        output.answer({ project, id, name, scopes, key: text }, text);
        if (output.json) return;
        output.note(
          `key ${id} of the project ${project}, ${scopes.join(" ")}: it is shown this once; store it now`,
        );
      },
    );
}

async function init(url: string, spec: FirstKeySpec): Promise<IssuedKey> {
  const [{ migrate }, { openDatabase }, { makeFirstKey }] = await Promise.all([
    import("../store/migrate.js"),
    import("../store/database.js"),
    import("../access/first-key.js"),
  ]);
  await migrate(url);
  // Unnamed: a pooler may be before the database.
  const db = openDatabase({ url, maxConnections: 1, unnamed: true, onError: () => undefined });
  try {
    return await makeFirstKey(db, spec);
  } finally {
    await db.close();
  }
}
