import { Trunkline, TrunklineError } from "@trunkline/sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDatabase, useDatabase } from "../support/database.js";
import { RunningCommand, trunkline, type CommandResult } from "./command.js";

const database = useDatabase();
const ROOT = "a-root-key-for-this-test";
const KEY = /^tlk_([0-9a-f]{24})_\S{43}$/;

let server: RunningCommand;
let url: string;

beforeAll(async () => {
  const env = { DATABASE_URL: database.url, TRUNKLINE_ROOT_KEY: ROOT };
  server = new RunningCommand(["serve", "--port", "0", "--heartbeat-interval", "200ms"], { env });
  url = await server.ready();
});

afterAll(async () => {
  await server.terminate();
});

const init = (...args: string[]): Promise<CommandResult> =>
  trunkline(["init", ...args], { env: { DATABASE_URL: database.url } });

const cli = (key: string, ...args: string[]): Promise<CommandResult> =>
  trunkline(args, { env: { TRUNKLINE_URL: url, TRUNKLINE_KEY: key } });

/** Runs a command that has to work; gives what it printed, without the line's end. */
const done = async (key: string, ...args: string[]): Promise<string> => {
  const { status, stdout, stderr } = await cli(key, ...args);
  expect({ status, stderr }).toMatchObject({ status: 0 });
  return stdout.trimEnd();
};

/** What the server says to whoever shows this, when asked for runs. */
const standing = async (key: string): Promise<string> => {
  const client = new Trunkline({ url, key });
  const said = await client.runs.list().then(
    () => "good",
    (error: unknown) => (error instanceof TrunklineError ? error.message : String(error)),
  );
  await client.close();
  return said;
};

const UNKNOWN = "the key is not known to this server, or was revoked";

describe("init", () => {
  test("prints a key with all scopes, which servers know at once; of two at once one is refused", async () => {
    const [first, second] = await Promise.all([init(), init()]);
    const [made, refused] = first.status === 0 ? [first, second] : [second, first];
    expect(made).toMatchObject({ status: 0, stderr: expect.stringMatching(/^key .* once; store it now\n$/) });
    const [, id] = KEY.exec(made.stdout.trimEnd()) ?? [];
    expect(refused).toMatchObject({ status: 1, stdout: "" });
    expect(refused.stderr).toMatch(/^error: the project "default" has a key with .* admin .*--force.*\n$/);
    const [listed, forced] = await Promise.all([
      done(made.stdout.trimEnd(), "key", "list", "--json"),
      init("--project", "acme", "--json").then(() => init("--project", "acme", "--force", "--json")),
    ]);
    expect(JSON.parse(listed)).toMatchObject({ id, scopes: ["worker", "harness", "admin"], revokedAt: null });
    expect(JSON.parse(forced.stdout)).toMatchObject({ project: "acme", key: expect.stringMatching(KEY) });
    expect(forced.stderr).toBe("");
  });

  test("brings an empty database's schema up to date, and says what is wrong with one", async () => {
    const empty = await createDatabase();
    try {
      await empty.pool().query("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
      const made = await trunkline(["init"], { env: { DATABASE_URL: empty.url } });
      expect(made.stdout.trimEnd()).toMatch(KEY);
    } finally {
      await empty.drop();
    }
    const env = { DATABASE_URL: "postgres://user:hush@127.0.0.1:9/name" };
    const { status, stdout, stderr } = await trunkline(["init"], { env });
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toMatch(/^error: cannot use the database postgres:\/\/user:\*\*\*@.*refused.*\n$/);
  });
});

test("a key is printed once, alone, and does what its scopes say until it is rotated and revoked", async () => {
  const { stdout, stderr } = await cli(ROOT, "key", "create", "billing", "--scope", "harness");
  const key = stdout.trimEnd();
  const [, id = ""] = KEY.exec(key) ?? [];
  expect(stderr).toBe(`key ${id}, harness: it is shown this once; store it now\n`);
  const [denied, listed, rotated] = await Promise.all([
    cli(key, "key", "list"),
    done(ROOT, "key", "list"),
    done(ROOT, "key", "rotate", id, "--grace", "24h"),
  ]);
  expect(denied).toMatchObject({ status: 1, stdout: "" });
  expect(denied.stderr).toMatch(/^error: .* scope admin; this key, with the scope harness, is not one\n$/);
  expect(listed).toMatch(/^ID +NAME +SCOPES +MADE +LAST USED +REVOKED *\n/);
  expect(listed).toMatch(new RegExp(`^${id} +billing +harness +\\S+Z`, "m"));
  expect([await standing(key), await standing(rotated)]).toEqual(["good", "good"]);
  const last = JSON.parse(await done(ROOT, "key", "rotate", id, "--json"));
  expect(last).toMatchObject({ id, name: "billing", scopes: ["harness"], key: expect.stringMatching(KEY) });
  expect([await standing(key), await standing(last.key)]).toEqual([UNKNOWN, "good"]);
  expect(await done(ROOT, "key", "revoke", id)).toBe(`${id} revoked`);
  expect(await standing(last.key)).toBe(UNKNOWN);
});

test("a token is one end user's, until it is revoked or what signs tokens is replaced", async () => {
  const create = ["token", "create", "--namespace", "ada", "--scope", "harness", "--scope", "worker"];
  const [{ stdout, stderr }, document] = await Promise.all([
    cli(ROOT, ...create, "--ttl", "15m"),
    done(ROOT, ...create, "--run", "01990000-0000-7000-8000-000000000000", "--json"),
  ]);
  const token = stdout.trimEnd();
  const [, id = ""] = /^token (\S+): it is shown this once, and expires at \S+Z\n$/.exec(stderr) ?? [];
  const other = JSON.parse(document);
  expect(other).toEqual({ id: expect.any(String), token: expect.any(String), expiresAt: expect.any(String) });
  expect([await standing(token), await standing(other.token)]).toEqual(["good", "good"]);
  expect(await done(ROOT, "token", "revoke", id)).toBe(`${id} revoked`);
  expect(await standing(token)).toContain("the token was revoked");
  expect(await done(ROOT, "token", "rotate-signing-key", "--grace", "1h")).toMatch(/good for 1h at most$/);
  expect(await standing(other.token)).toBe("good");
  expect(await done(ROOT, "token", "rotate-signing-key")).toMatch(/are useless now$/);
  expect(await standing(other.token)).toContain("was replaced");
});

test("projects are made and listed with the root key, and keys made in each", async () => {
  expect(await done(ROOT, "project", "create", "zeta")).toBe("zeta");
  const [listed, admin] = await Promise.all([
    done(ROOT, "project", "list"),
    done(ROOT, "key", "create", "admin", "--scope", "admin", "--project", "zeta"),
  ]);
  expect(listed).toMatch(/^NAME +MADE *\n[^]*^default +\S+Z\nzeta +\S+Z$/m);
  const { status, stderr } = await cli(admin, "project", "list");
  expect({ status, stderr }).toMatchObject({
    status: 1,
    stderr: expect.stringContaining("for the root key"),
  });
});
