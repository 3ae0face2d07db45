import { createHash, randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import pg from "pg";
import { listMigrations, migrate } from "./migrate.js";
import { CLOCK_SCHEMA, CLOCK_SEARCH_PATH } from "./test-clock.js";

const DATABASES = "trunkline_test_";
const TEMPLATES = "trunkline_template_";
/** Those of so many versions of Trunkline are kept, the newest made. */
const KEPT_TEMPLATES = 5;

/** Advisory locks of the server's own database: who uses the server, and who makes a template. */
const USERS = 0x74726e75;
const MAKING = 0x74726e6d;

/** A database of a test's own. */
export interface OwnDatabase {
  readonly url: string;
  /** Removes it, whoever is connected to it. */
  drop(): Promise<void>;
}

/** A PostgreSQL server in which tests make databases with a clock that can be moved; holds one connection to it. */
export class TestDatabases {
  readonly #url: string;
  readonly #client: pg.Client;

  private constructor(url: string, client: pg.Client) {
    this.#url = url;
    this.#client = client;
  }

  /** Connects to a server, as a role that may make databases. */
  static async connect(url: string): Promise<TestDatabases> {
    const client = new pg.Client({ connectionString: url, application_name: "trunkline tests" });
    client.on("error", () => {});
    await client.connect();
    return new TestDatabases(url, client);
  }

  /**
   * Counts this connection among the server's users, until it is closed. Whoever finds nobody else there removes what
   * processes that were killed have left behind.
   *
   * @returns false where somebody else is alone with the server, and may be about to stop it
   */
  async enter(): Promise<boolean> {
    if (!(await this.#lock("pg_try_advisory_lock"))) return this.#lock("pg_try_advisory_lock_shared");
    await this.#removeLeftovers();
    await this.#lock("pg_try_advisory_lock_shared");
    await this.#lock("pg_advisory_unlock");
    return true;
  }

  /**
   * Takes this connection out of the users.
   *
   * @returns whether nobody else is there, nor can enter before this connection is closed
   */
  async leave(): Promise<boolean> {
    // Both of two that leave at once have given theirs up before they ask, so that one of them is told.
    await this.#lock("pg_advisory_unlock_shared");
    return this.#lock("pg_try_advisory_lock");
  }

  /** Makes a database as a copy of one with all migrations, which is made on first use and stays. */
  async copy(): Promise<OwnDatabase> {
    const template = await this.#template();
    return this.#own((name) => this.#client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`));
  }

  /** As {@link copy}, but leaves no template behind: for servers that are not the tests' own. */
  async make(): Promise<OwnDatabase> {
    return this.#own((name) => this.#migrated(name));
  }

  /** Closes its connection, whether the server is still there or not. */
  async close(): Promise<void> {
    await this.#client.end();
  }

  async #own(create: (name: string) => Promise<unknown>): Promise<OwnDatabase> {
    const name = DATABASES + randomBytes(8).toString("hex");
    const drop = async (): Promise<void> => {
      await this.#client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    };
    try {
      await create(name);
      // Copies do not take settings along.
      await this.#client.query(`ALTER DATABASE ${name} SET search_path = ${CLOCK_SEARCH_PATH}`);
    } catch (error) {
      await drop();
      throw error;
    }
    return { url: this.#urlOf(name), drop };
  }

  async #template(): Promise<string> {
    const name = TEMPLATES + (await fingerprint());
    const isThere = async (): Promise<boolean> => {
      const { rowCount } = await this.#client.query("SELECT FROM pg_database WHERE datname = $1", [name]);
      return rowCount === 1;
    };
    if (await isThere()) return name;
    await this.#client.query("SELECT pg_advisory_lock($1)", [MAKING]);
    try {
      if (await isThere()) return name;
      const unfinished = `${name}_new`;
      await this.#client.query(`DROP DATABASE IF EXISTS ${unfinished} WITH (FORCE)`);
      await this.#migrated(unfinished);
      await this.#client.query(`ALTER DATABASE ${unfinished} RENAME TO ${name}`);
      return name;
    } finally {
      await this.#client.query("SELECT pg_advisory_unlock($1)", [MAKING]);
    }
  }

  async #migrated(name: string): Promise<void> {
    await this.#client.query(`CREATE DATABASE ${name}`);
    await this.#client.query(`ALTER DATABASE ${name} SET search_path = ${CLOCK_SEARCH_PATH}`);
    const client = new pg.Client({ connectionString: this.#urlOf(name) });
    client.on("error", () => {});
    await client.connect();
    try {
      await client.query(CLOCK_SCHEMA);
    } finally {
      await client.end();
    }
    await migrate(this.#urlOf(name));
  }

  async #removeLeftovers(): Promise<void> {
    const { rows } = await this.#client.query<{ readonly datname: string }>(
      `SELECT datname FROM pg_database WHERE starts_with(datname, $1)
      UNION ALL
      (SELECT datname FROM pg_database WHERE starts_with(datname, $2) ORDER BY oid DESC OFFSET $3)`,
      [DATABASES, TEMPLATES, KEPT_TEMPLATES],
    );
    for (const { datname } of rows) await this.#client.query(`DROP DATABASE ${datname} WITH (FORCE)`);
  }

  #urlOf(name: string): string {
    const url = new URL(this.#url);
    url.pathname = `/${name}`;
    return url.href;
  }

  async #lock(how: Lock): Promise<boolean> {
    const { rows } = await this.#client.query<{ readonly done: boolean }>(`SELECT ${how}($1) AS done`, [
      USERS,
    ]);
    return rows[0]?.done === true;
  }
}

type Lock =
  "pg_try_advisory_lock" | "pg_try_advisory_lock_shared" | "pg_advisory_unlock" | "pg_advisory_unlock_shared";

/** Of all that a template is made from: another version of Trunkline has another one. */
async function fingerprint(): Promise<string> {
  const hash = createHash("sha256").update(CLOCK_SCHEMA).update(CLOCK_SEARCH_PATH);
  for (const { file } of await listMigrations()) hash.update(await readFile(file));
  return hash.digest("hex").slice(0, 16);
}
