import type { Command } from "commander";
import { readDatabaseUrl } from "../config.js";
import { outputOf, refuseClientFlags } from "./client-context.js";
import { explainDatabaseError } from "./database-problem.js";

interface MigrateFlags {
  readonly databaseUrl?: string;
}

const EXAMPLE = `
Servers do this themselves when they start; run it when their user may not create tables.

Example:
  $ DATABASE_URL=postgres://owner@db.example:5432/trunkline trunkline migrate
  applied 0001_first_schema`;

/** Adds `trunkline migrate`: brings a database's schema up to date. */
export function addMigrate(program: Command): void {
  program
    .command("migrate")
    .description("bring a database's schema up to what this version needs")
    .option("--database-url <url>", "postgres://USER@HOST:PORT/NAME; better in the environment: DATABASE_URL")
    .addHelpText("after", EXAMPLE)
    .action(async (flags: MigrateFlags, command: Command) => {
      refuseClientFlags(command);
      const url = readDatabaseUrl(flags.databaseUrl, process.env);
      const { migrate } = await import("../store/migrate.js");
      const { applied } = await migrate(url).catch((error: unknown) => {
        throw explainDatabaseError(error, url);
      });
      const lines = applied.map((name) => `applied ${name}`);
      const output = outputOf(command);
      if (output.json) output.document({ applied });
      else for (const line of lines.length === 0 ? ["up to date"] : lines) output.line(line);
    });
}
