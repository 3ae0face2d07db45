import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { DEFAULT_DATA_DIR, readDevConfig, type DevConfig, type DevFlags } from "../config.js";
import { createLog, type Log } from "../log.js";
import { outputOf, refuseClientFlags } from "./client-context.js";
import type { Output } from "./output.js";
import { serveUntilStopped } from "./serve-until-stopped.js";
import { addServerFlags, commonOptions } from "./server-flags.js";
import { listenForStop } from "./stop-signals.js";
import { TerminalLog } from "./terminal-log.js";

const EXAMPLE = `
Example:
  $ trunkline dev --port 7788
  ready http://127.0.0.1:7788

Ctrl-C stops the server and its database. The data stay, and the next start goes on with them.`;

/** Adds `trunkline dev`: a server for development, with a database of its own and without keys. */
export function addDev(program: Command): void {
  addServerFlags(
    program
      .command("dev")
      .description("start a server for development: own database, no keys, this machine only")
      .option("--host <host>", "loopback name or address to listen on (default: 127.0.0.1)")
      .option(
        "--data <folder>",
        `folder of the embedded PostgreSQL (default: ./${DEFAULT_DATA_DIR}, or the server in DATABASE_URL)`,
      ),
  )
    .addHelpText("after", EXAMPLE)
    .action(async (flags: DevFlags, command: Command) => {
      refuseClientFlags(command);
      await dev(readDevConfig(flags, process.env), outputOf(command));
    });
}

interface DevDatabase {
  readonly url: string;
  stop(): Promise<void>;
}

async function dev(config: DevConfig, output: Output): Promise<void> {
  // A person reads along; whatever else reads standard error gets lines of JSON, as from `serve`.
  const forPerson = process.stderr.isTTY && !output.json;
  const log = createLog(config.logLevel, forPerson ? new TerminalLog(process.stderr) : undefined);
  let ownsDatabase = config.database.kind === "embedded";
  const signals = listenForStop({
    onSecond: () => {
      if (ownsDatabase)
        log.warn("PostgreSQL is left running; the next `trunkline dev` in this folder takes it over");
    },
  });
  try {
    const database = await openDatabase(config.database, log);
    try {
      const options = { ...commonOptions(config, log), databaseUrl: database.url };
      await serveUntilStopped({ ...options, rootKey: null, insecure: true }, output, signals);
    } finally {
      await database.stop();
      ownsDatabase = false;
    }
  } finally {
    signals.dispose();
  }
}

async function openDatabase(database: DevConfig["database"], log: Log): Promise<DevDatabase> {
  if (database.kind === "url") return { url: database.url, stop: async () => undefined };
  const { startEmbeddedPostgres } = await import("../embedded/embedded-postgres.js");
  const { dataDir, isDefault } = database;
  const postgres = await startEmbeddedPostgres({ dataDir, log: (line) => log.info(line) });
  if (isDefault) await hideFromGit(dirname(dataDir));
  return postgres;
}

/** The data hold a password and are nobody's source code. */
async function hideFromGit(folder: string): Promise<void> {
  await writeFile(join(folder, ".gitignore"), "*\n", { flag: "wx" }).catch(() => undefined);
}
