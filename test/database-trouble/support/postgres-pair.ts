import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, cp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { chooseAccount, type Account } from "../../../server/src/embedded/account.js";
import { findBinaries, type Binaries } from "../../../server/src/embedded/binaries.js";
import { CHILD_ENV } from "../../../server/src/embedded/cluster.js";
import { startEmbeddedPostgres } from "../../../server/src/embedded/embedded-postgres.js";
import { findFreePort } from "../../../server/src/embedded/launch.js";
import { newDataFolder, watchOverMe } from "../../support/postgres.js";
import { until } from "../../support/until.js";

const STANDBY_NAME = "standby";

/** One of two servers. */
class Member {
  readonly url: string;
  readonly dataDir: string;
  readonly #start: () => ChildProcess;
  readonly #undertaker: { dismiss(): Promise<void> };
  #process: ChildProcess | undefined;

  constructor(url: string, dataDir: string, start: () => ChildProcess) {
    this.url = url;
    this.dataDir = dataDir;
    this.#start = start;
    this.#undertaker = watchOverMe(dataDir);
  }

  async start(): Promise<void> {
    this.#process = this.#start();
    await until("a server's answer", () =>
      this.sql("SELECT 1").then(
        () => true,
        () => false,
      ),
    );
  }

  /** Ends it without a last word: SIGKILL to the server, after which its sessions end by themselves. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  async sql(text: string): Promise<readonly Record<string, unknown>[]> {
    const client = new pg.Client({ connectionString: this.url });
    client.on("error", () => undefined);
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(text)).rows;
    } finally {
      await client.end();
    }
  }

  async dispose(): Promise<void> {
    await this.#end("SIGQUIT");
    await this.#undertaker.dismiss();
    await rm(this.dataDir, { recursive: true, force: true });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    if (running?.exitCode !== null || running.signalCode !== null) return;
    const ended = once(running, "exit");
    running.kill(signal);
    await ended;
  }
}

/** Two servers of which one follows the other, which acknowledges nothing before its standby has it. */
export class PostgresPair implements AsyncDisposable {
  readonly primary: Member;
  readonly standby: Member;

  private constructor(primary: Member, standby: Member) {
    this.primary = primary;
    this.standby = standby;
  }

  static async start(): Promise<PostgresPair> {
    const folders = [newDataFolder(), newDataFolder()] as const;
    const [dataDir, standbyDir] = folders;
    const account = await chooseAccount(dataDir);
    const binaries = await findBinaries(account, () => undefined);
    // A folder of a server that was shut down in order is a standby's beginning as well.
    const first = await startEmbeddedPostgres({ dataDir });
    const url = new URL(first.url);
    await first.stop();
    await cp(dataDir, standbyDir, { recursive: true });
    await chmod(standbyDir, 0o700);
    const ports = [await findFreePort(), await findFreePort()] as const;
    await follow(standbyDir, url, ports[0]);
    if (account !== undefined) await giveTo(standbyDir, account);
    const [primary, standby] = folders.map((folder, index) => {
      const own = new URL(url);
      own.port = String(ports[index]);
      return new Member(own.href, folder, () => launch(binaries, account, folder, Number(own.port)));
    }) as [Member, Member];
    await Promise.all([primary.start(), standby.start()]);
    await primary.sql(`ALTER SYSTEM SET synchronous_standby_names = '${STANDBY_NAME}'`);
    await primary.sql("SELECT pg_reload_conf()");
    await until("a synchronous standby", async () => {
      const rows = await primary.sql("SELECT sync_state FROM pg_stat_replication");
      return rows[0]?.["sync_state"] === "sync";
    });
    return new PostgresPair(primary, standby);
  }

  /** A connection string that lists both, the standby first. */
  get url(): string {
    const url = new URL(this.primary.url);
    return this.primary.url.replace(url.host, `${new URL(this.standby.url).host},${url.host}`);
  }

  /** Makes the standby a server that takes writes. */
  async promote(): Promise<void> {
    await this.standby.sql("SELECT pg_promote()");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.primary.dispose(), this.standby.dispose()]);
  }
}

async function follow(dataDir: string, primary: URL, port: number): Promise<void> {
  await writeFile(join(dataDir, "standby.signal"), "");
  const conf = join(dataDir, "postgresql.auto.conf");
  const connection = [
    `host=127.0.0.1 port=${port} user=${primary.username}`,
    `password=${decodeURIComponent(primary.password)} application_name=${STANDBY_NAME}`,
  ].join(" ");
  await writeFile(conf, `${await readFile(conf, "utf8")}\nprimary_conninfo = '${connection}'\n`);
}

async function giveTo(folder: string, { uid, gid }: Account): Promise<void> {
  await chown(folder, uid, gid);
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    await chown(join(entry.parentPath, entry.name), uid, gid);
  }
}

function launch(
  { postgres }: Binaries,
  account: Account | undefined,
  dataDir: string,
  port: number,
): ChildProcess {
  const settings = {
    listen_addresses: "127.0.0.1",
    port,
    unix_socket_directories: "",
    shared_buffers: "32MB",
    // At least what the first start had, or a standby refuses to follow.
    max_connections: 200,
    // Sessions of a killed server that wait for its standby must not outlive it for long.
    wal_receiver_timeout: "5s",
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  return spawn(postgres, ["-D", dataDir, ...flags], {
    ...account,
    cwd: "/",
    env: CHILD_ENV,
    stdio: "ignore",
    detached: true,
  });
}
