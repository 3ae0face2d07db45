import { readFile } from "node:fs/promises";
import type { Command } from "commander";
import { readServeConfig, type ServeConfig, type ServeFlags } from "../config.js";
import { createLog } from "../log.js";
import type { ServerOptions } from "../server.js";
import { outputOf, refuseClientFlags } from "./client-context.js";
import { unreadable } from "./input-text.js";
import type { Output } from "./output.js";
import { serveUntilStopped } from "./serve-until-stopped.js";
import { addServerFlags, commonOptions } from "./server-flags.js";
import { listenForStop } from "./stop-signals.js";

const EXAMPLE = `
Environment:
  TRUNKLINE_ROOT_KEY  the key with all rights, which clients give as TRUNKLINE_KEY

Example:
  $ export DATABASE_URL=postgres://trunkline@db.example:5432/trunkline
  $ TRUNKLINE_ROOT_KEY=$(openssl rand -hex 32) trunkline serve --host 0.0.0.0
  ready http://0.0.0.0:7788`;

/** Adds `trunkline serve`: a server on a given database, with a key. */
export function addServe(program: Command): void {
  addServerFlags(
    program
      .command("serve")
      .description("start a server on a PostgreSQL database; any number may share one")
      .option(
        "--database-url <url>",
        "postgres://USER@HOST:PORT/NAME; better in the environment: DATABASE_URL",
      )
      .option("--host <host>", "name or address to listen on, 0.0.0.0 for all (default: 127.0.0.1)")
      .option("--tls-cert <file>", "PEM certificate with its chain; the port then speaks TLS only")
      .option("--tls-key <file>", "PEM private key of the certificate")
      .option("--insecure", "serve everybody without a key")
      .option(
        "--pooler",
        "the database is behind a pooler in transaction mode: prepare nothing, listen to nothing, and find " +
          "what other nodes do by polling (default: found out at the start)",
      ),
  )
    .addHelpText("after", EXAMPLE)
    .action(async (flags: ServeFlags, command: Command) => {
      refuseClientFlags(command);
      await serve(readServeConfig(flags, process.env), outputOf(command));
    });
}

async function serve(config: ServeConfig, output: Output): Promise<void> {
  const tls = await readTls(config.tls);
  const log = createLog(config.logLevel);
  const { databaseUrl, rootKey, insecure, pooler } = config;
  if (insecure) log.warn("--insecure: whoever reaches this port has all rights, with and without a key");
  const signals = listenForStop();
  const common = commonOptions(config, log);
  // Without the flag the start finds out.
  const known = { ...(tls && { tls }), ...(pooler && { pooler }) };
  const options = { ...common, databaseUrl, rootKey, insecure, ...known };
  try {
    await serveUntilStopped(options, output, signals);
  } finally {
    signals.dispose();
  }
}

async function readTls(tls: ServeConfig["tls"]): Promise<ServerOptions["tls"] | undefined> {
  if (tls === null) return undefined;
  return { cert: await readPem(tls.certFile, "--tls-cert"), key: await readPem(tls.keyFile, "--tls-key") };
}

async function readPem(file: string, flag: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw unreadable(file, flag, error);
  }
}
