import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { createDatabase, serverUrl, useDatabase } from "../support/database.js";
import { withDatabase } from "../support/postgres.js";
import { until } from "../support/until.js";
import { RunningCommand, trunkline } from "./command.js";

const database = useDatabase();
const KEY = "a-root-key-for-this-test";
const pem = (name: string): string =>
  fileURLToPath(new URL(`../support/tls/fixture-${name}.pem`, import.meta.url));

const serve = (...flags: string[]): RunningCommand =>
  new RunningCommand(["serve", "--port", "0", ...flags], {
    env: { DATABASE_URL: database.url, TRUNKLINE_ROOT_KEY: KEY },
  });

describe("serve", () => {
  test("takes the root key and refuses everything else, in words that say where to put it", async () => {
    await using server = serve();
    const TRUNKLINE_URL = await server.ready();
    const list = (env: NodeJS.ProcessEnv): ReturnType<typeof trunkline> =>
      trunkline(["run", "list"], { env: { TRUNKLINE_URL, ...env } });
    expect(await list({ TRUNKLINE_KEY: KEY })).toMatchObject({ status: 0 });
    for (const env of [{}, { TRUNKLINE_KEY: "wrong-key" }]) {
      const { status, stderr } = await list(env);
      expect(status).toBe(1);
      expect(stderr).toMatch(/^error: .*give one of the server's keys in TRUNKLINE_KEY\n$/);
      expect(stderr).not.toContain("wrong-key");
    }
    expect(await server.terminate()).toEqual({ status: 0, signal: null });
    expect(server.stdout).toBe(`ready ${TRUNKLINE_URL}\n`);
    expect(server.stderr).not.toContain(KEY);
  });

  test("speaks TLS with a certificate and its key", async () => {
    await using server = serve("--tls-cert", pem("cert"), "--tls-key", pem("key"));
    const TRUNKLINE_URL = await server.ready();
    expect(TRUNKLINE_URL).toMatch(/^https:/);
    const env = { TRUNKLINE_URL, TRUNKLINE_KEY: KEY, NODE_EXTRA_CA_CERTS: pem("cert") };
    expect(await trunkline(["run", "list"], { env })).toMatchObject({ status: 0 });
  });

  test("two files that are no certificate and key are named, before anything is started", async () => {
    const env = { DATABASE_URL: database.url, TRUNKLINE_ROOT_KEY: KEY };
    const missing = await trunkline(["serve", "--tls-cert", "/no/cert", "--tls-key", pem("key")], { env });
    expect(missing).toMatchObject({ status: 2, stdout: "" });
    expect(missing.stderr).toMatch(/^error: --tls-cert: cannot read "\/no\/cert"/);
    const swapped = [
      "--tls-cert",
      pem("key"),
      "--tls-key",
      pem("cert"),
      "--port",
      "0",
      "--log-level",
      "silent",
    ];
    const wrong = await trunkline(["serve", ...swapped], { env });
    expect(wrong).toMatchObject({ status: 2, stdout: "" });
    expect(wrong.stderr).toMatch(/^error: tls: the certificate and key cannot be used/);
  });

  test("a port that is taken, and a database that cannot be reached, say what to do", async () => {
    await using server = serve();
    const { port } = new URL(await server.ready());
    const env = { DATABASE_URL: database.url, TRUNKLINE_ROOT_KEY: KEY };
    const taken = await trunkline(["serve", "--port", port, "--log-level", "silent"], { env });
    expect(taken).toMatchObject({ status: 1, stdout: "" });
    expect(taken.stderr).toMatch(/^error: cannot listen on .*: the port is in use; .*\n$/);

    const nowhere = { ...env, DATABASE_URL: "postgres://user:hush@127.0.0.1:9/name" };
    const refused = await trunkline(["serve", "--port", "0"], { env: nowhere });
    expect(refused).toMatchObject({ status: 1, stdout: "" });
    expect(refused.stderr).toMatch(
      /^error: cannot use the database postgres:\/\/user:\*\*\*@127\.0\.0\.1:9\/name: .*DATABASE_URL.*\n$/,
    );
    const missing = { ...env, DATABASE_URL: withDatabase(serverUrl(), "no_such_database") };
    expect((await trunkline(["serve", "--port", "0"], { env: missing })).stderr).toContain(
      "there is no such database",
    );
  });

  test("says on standard output where it serves, for machines too, and outlives that reader", async () => {
    await using server = serve("--json", "--insecure");
    const { url } = JSON.parse(await until("its document", () => server.stdout));
    await server.stopReading();
    expect(await trunkline(["run", "list"], { env: { TRUNKLINE_URL: url } })).toMatchObject({ status: 0 });
    server.signal("SIGINT");
    expect(await server.ended).toEqual({ status: 0, signal: null });
    expect(server.stderr).toContain("--insecure");
  });
});

describe("migrate", () => {
  test("brings a database up to date, and says so when it is", async () => {
    const current = await createDatabase();
    try {
      const env = { DATABASE_URL: current.url };
      expect(await trunkline(["migrate"], { env })).toEqual({
        status: 0,
        stdout: "up to date\n",
        stderr: "",
      });
      await current.pool().query("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
      expect((await trunkline(["migrate"], { env })).stdout).toMatch(/^applied 0001_first_schema\n/);
      expect((await trunkline(["migrate", "--json"], { env })).stdout).toBe('{"applied":[]}\n');
    } finally {
      await current.drop();
    }
  });
});
