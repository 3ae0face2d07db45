import { readFile } from "node:fs/promises";
import type { Command } from "commander";
import { QUOTA_NAMES } from "../core/quota.js";
import { isLoopback, readServeConfig, type ServeConfig, type ServeFlags } from "../config.js";
import { createLog, type Log } from "../log.js";
import type { TlsFiles } from "../service/listener-tls.js";
import { TlsRenewal } from "./tls-renewal.js";
import { outputOf, refuseClientFlags } from "./client-context.js";
import { unreadable } from "./input-text.js";
import type { Output } from "./output.js";
import { serveUntilStopped } from "./serve-until-stopped.js";
import { addServerFlags, addValue, commonOptions } from "./server-flags.js";
import { listenForStop } from "./stop-signals.js";

const EXAMPLE = `
Environment:
  TRUNKLINE_ROOT_KEY  the key with all rights, which clients give as TRUNKLINE_KEY

Example:
  $ export DATABASE_URL=postgres://trunkline@db.example:5432/trunkline
  $ export TRUNKLINE_ROOT_KEY=$(openssl rand -hex 32)
  $ trunkline serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
  ready https://0.0.0.0:7788

With --tls-cert, SIGHUP reads both files again; they are looked at every 30 s anyway.`;

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
      .option("--insecure-plaintext", "serve without TLS to other machines, too")
      .option(
        "--limit <name=n>",
        `what one key, end user or project may use, such as namespace.open_calls=1000; may be repeated: ${QUOTA_NAMES.join(", ")}`,
        addValue,
      )
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
  const files = config.tls;
  const tls = files === null ? undefined : await readTls(files);
  const log = createLog(config.logLevel);
  warnOfDangers(config, log);
  const { databaseUrl, rootKey, insecure, pooler, quotas } = config;
  let renewal: TlsRenewal | undefined;
  // Without TLS there is nothing to read again, and the signal says that the terminal was closed.
  const signals = listenForStop({ ...(tls && { onHangUp: () => void renewal?.look() }) });
  const common = commonOptions(config, log);
  // Without the flag the start finds out.
  const known = { ...(tls && { tls }), ...(pooler && { pooler }) };
  const options = { ...common, databaseUrl, rootKey, insecure, quotas, ...known };
  try {
    await serveUntilStopped(options, output, signals, (server) => {
      if (files === null || tls === undefined) return;
      const renew = server.renewTls.bind(server);
      renewal = new TlsRenewal({ current: tls, read: () => readTls(files), renew, log });
    });
  } finally {
    renewal?.stop();
    signals.dispose();
  }
}

function warnOfDangers({ host, tls, insecure }: ServeConfig, log: Log): void {
  const isRemote = !isLoopback(host);
  if (insecure && isRemote) {
    // An error, so that it is seen at every level but `silent`.
    log.error(
      `--insecure on ${host}: EVERYBODY who reaches this address may read, answer and delete everything, with and ` +
        "without a key",
    );
  } else if (insecure) {
    log.warn("--insecure: whoever reaches this port has all rights, with and without a key");
  }
  if (tls === null && isRemote) {
    log.warn(`--insecure-plaintext on ${host}: keys, tokens and payloads cross the network as plain text`);
  }
}

async function readTls({ certFile, keyFile }: NonNullable<ServeConfig["tls"]>): Promise<TlsFiles> {
  return { cert: await readPem(certFile, "--tls-cert"), key: await readPem(keyFile, "--tls-key") };
}

async function readPem(file: string, flag: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw unreadable(file, flag, error);
  }
}
