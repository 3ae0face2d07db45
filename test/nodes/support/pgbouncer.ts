import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { findFreePort } from "../../../server/src/embedded/launch.js";
import { TestProcess } from "../../support/child-process.js";
import { until } from "../../support/until.js";

const PLACES = [...(process.env["PATH"] ?? "").split(":"), "/usr/sbin", "/usr/local/sbin"];

/** The program, where it is installed. */
export const PGBOUNCER = PLACES.map((folder) => join(folder, "pgbouncer")).find((file) => existsSync(file));

/** An account without rights, on every Linux: PgBouncer refuses to run as root. */
const NOBODY = 65_534;

/** A real PgBouncer before a database. */
export interface PgBouncer extends AsyncDisposable {
  /** The database's connection string, through the pooler. */
  readonly url: string;
}

/** Starts one; resolves when it takes connections. */
export async function startPgBouncer(
  program: string,
  databaseUrl: string,
  mode: "transaction" | "session" = "transaction",
): Promise<PgBouncer> {
  const folder = await mkdtemp(join(tmpdir(), "trunkline-pgbouncer-"));
  const port = await findFreePort();
  const server = new URL(databaseUrl);
  const target = [
    `host=${server.hostname}`,
    `port=${server.port}`,
    `user=${server.username}`,
    ...(server.password === "" ? [] : [`password=${decodeURIComponent(server.password)}`]),
  ].join(" ");
  const file = join(folder, "pgbouncer.ini");
  await writeFile(
    file,
    `[databases]
* = ${target}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
max_client_conn = 200
default_pool_size = ${mode === "session" ? 50 : 5}
`,
  );
  await chmod(folder, 0o755);
  const isRoot = process.getuid?.() === 0;
  const child = spawn(program, ["-q", file], {
    stdio: ["ignore", "ignore", "pipe"],
    ...(isRoot && { uid: NOBODY, gid: NOBODY }),
  });
  const pooler = new TestProcess(child);
  const url = new URL(databaseUrl);
  url.port = String(port);
  url.password = "";
  await until("PgBouncer takes connections", async () => {
    if (!pooler.isAlive) throw new Error(`PgBouncer ended: ${pooler.stderr}`);
    return isThere(url.href);
  });
  return {
    url: url.href,
    [Symbol.asyncDispose]: async () => {
      await pooler.kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function isThere(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}
