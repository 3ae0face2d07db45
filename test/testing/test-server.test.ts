import { spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterEach, describe, expect, test } from "vitest";
import { Trunkline } from "@trunkline/sdk";
import { startTestServer, type TestServerOptions } from "trunkline/testing";
import { bundledMajor } from "../../server/src/embedded/binaries.js";
import { startEmbeddedPostgres } from "../../server/src/embedded/embedded-postgres.js";
import { inspectProcess } from "../../server/src/embedded/process-info.js";
import { cleanEnvironment, TestProcess } from "../support/child-process.js";
import { serverUrl } from "../support/database.js";
import { within } from "../support/until.js";

/** Later runs of these tests use it again, as tests of users do. */
const dataDir = join(tmpdir(), `trunkline-test-testing-pg${await bundledMajor()}`);
/** The build, because Node cannot run the sources; `npm test` renews it first. */
const MODULE = new URL("../../server/dist/testing/index.js", import.meta.url).href;
const PROGRAM = fileURLToPath(new URL("./test-program.mjs", import.meta.url));

/** What a test process says of its server. */
interface Ready {
  readonly readyMs: number;
  readonly run: string;
  readonly runs: number;
  readonly url: string;
}

/** A process of its own that has a test server. */
class ServerUser extends TestProcess {
  readonly ready: Promise<Ready>;
  readonly #lines: AsyncIterator<string>;
  readonly #end: () => void;

  constructor(options: TestServerOptions) {
    const child = spawn(process.execPath, [PROGRAM, JSON.stringify({ module: MODULE, options })], {
      env: cleanEnvironment(),
      stdio: ["pipe", "pipe", "pipe"],
    });
    super(child);
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    this.#end = () => child.stdin.end();
    this.ready = this.#line<Ready>();
  }

  /** Stops the server, and waits for the process to end by itself: how many milliseconds that took after `stop`. */
  async stop(): Promise<number> {
    this.#end();
    const { lingeredMs } = await this.#line<{ readonly lingeredMs: number }>();
    expect(await this.ended).toEqual({ status: 0, signal: null });
    return lingeredMs;
  }

  async #line<T>(): Promise<T> {
    const { value, done } = await within("a line of the test process", this.#lines.next());
    if (done === true) throw new Error(`the test process has ended: ${this.stderr}`);
    return JSON.parse(value) as T;
  }
}

const users: ServerUser[] = [];

function use(options: TestServerOptions): ServerUser {
  const user = new ServerUser(options);
  users.push(user);
  return user;
}

afterEach(async () => {
  for (const user of users.splice(0)) if (user.isAlive) await user.kill();
});

/** The databases of tests on a PostgreSQL. */
async function databasesOn(url: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ readonly datname: string }>(
    "SELECT datname FROM pg_database WHERE datname ~ '^trunkline_test_[0-9a-f]{16}$'",
  );
  await client.end();
  return rows.map(({ datname }) => datname);
}

describe("test servers on the embedded PostgreSQL", () => {
  test("of several processes at once share it, keep apart, and the last to stop stops it", async () => {
    const both = [use({ dataDir }), use({ dataDir })] as const;
    const [one, other] = await Promise.all(both.map((user) => user.ready));
    expect([one!.runs, other!.runs]).toEqual([1, 1]);
    expect(one!.run).not.toBe(other!.run);
    console.log(`two at once were ready in ${Math.round(one!.readyMs)} and ${Math.round(other!.readyMs)} ms`);

    const shared = await startEmbeddedPostgres({ dataDir });
    expect(shared.reused).toBe(true);
    const third = use({ dataDir });
    // One that starts while another stops.
    const [lingeredMs] = await Promise.all([both[0].stop(), third.ready]);
    expect(await inspectProcess(shared.pid)).toBeDefined();
    expect(await databasesOn(shared.url)).toHaveLength(2);
    await Promise.all([both[1].stop(), third.stop()]);
    expect(await inspectProcess(shared.pid)).toBeUndefined();
    // Nothing that was started holds the process up.
    expect(lingeredMs).toBeLessThan(500);
  });

  test("that were killed leave nothing behind once the next has started", async () => {
    const killed = use({ dataDir });
    await killed.ready;
    await killed.kill();
    await using next = await startTestServer({ dataDir });
    const shared = await startEmbeddedPostgres({ dataDir });
    expect(await databasesOn(shared.url)).toHaveLength(1);
    await next.stop();
    expect(await inspectProcess(shared.pid)).toBeUndefined();
  });

  test("is stopped although its clock's connection was lost, and the test is told", async () => {
    const server = await startTestServer({ dataDir });
    const shared = await startEmbeddedPostgres({ dataDir });
    const admin = new pg.Client({ connectionString: shared.url });
    await admin.connect();
    await admin.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'trunkline test clock'",
    );
    await admin.end();
    await expect(within("the stop", server.stop(), 5_000)).rejects.toThrow();
    await expect(server.client.runs.create()).rejects.toMatchObject({ reason: "CLOSED" });
    await expect(fetch(server.url)).rejects.toThrow();
    expect(await inspectProcess(shared.pid)).toBeUndefined();
  });

  test("are ready after less than two seconds of the processor's time, once the folder is prepared", async () => {
    const startedAt = performance.now();
    const before = process.cpuUsage();
    await using server = await startTestServer({ dataDir });
    const readyMs = performance.now() - startedAt;
    const { user, system } = process.cpuUsage(before);
    console.log(`ready in ${Math.round(readyMs)} ms`);
    // By the wall clock it says more of what else runs on the machine.
    expect((user + system) / 1_000).toBeLessThan(2_000);
    const stoppingAt = performance.now();
    await server.stop();
    console.log(`stopped in ${Math.round(performance.now() - stoppingAt)} ms`);
  });
});

describe("a test server on a given PostgreSQL", () => {
  test("takes its database away with it", async () => {
    const server = await startTestServer({ postgresUrl: serverUrl() });
    const before = await databasesOn(serverUrl());
    await server.stop();
    expect(await databasesOn(serverUrl())).toHaveLength(before.length - 1);
  });

  test("is stopped although a handler does not heed its signal", async () => {
    const server = await startTestServer({ postgresUrl: serverUrl() });
    let release = (_: unknown): void => undefined;
    server.client.worker({ tools: { stuck: () => new Promise((resolve) => (release = resolve)) } });
    const run = await server.client.runs.create();
    const call = await run.open("stuck");
    const outcome = call.outcome();
    await server.untilCall({ state: "claimed" });
    await within("the stop", server.stop(), 5_000);
    expect((await outcome).state).toBe("canceled");
    release(null);
  });

  test("asks for keys where it is told to, and has end users' tokens expire by its clock", async () => {
    await using server = await startTestServer({ postgresUrl: serverUrl(), keys: true });
    const as = (key: string): Trunkline =>
      new Trunkline({ url: server.url, key, onWarning: () => undefined });
    await using stranger = as("tlk_unknown");
    await expect(stranger.runs.create()).rejects.toMatchObject({ reason: "UNAUTHENTICATED" });

    const { token } = await server.client.tokens.create({
      namespace: "ada",
      scopes: ["harness"],
      ttl: "15m",
    });
    await using ada = as(token);
    await ada.runs.create({ namespace: "ada" });
    await server.clock.advance("14m");
    await ada.runs.create({ namespace: "ada" });
    await server.clock.advance("2m");
    await expect(ada.runs.create({ namespace: "ada" })).rejects.toThrow("the token has expired");
    // One that is made now is good from now on.
    const fresh = await server.client.tokens.create({ namespace: "ada", scopes: ["harness"], ttl: "15m" });
    await using again = as(fresh.token);
    await again.runs.create({ namespace: "ada" });
  });

  test.each<[string, object]>([
    ["heartbeatInterval", { heartbeatInterval: "5" }],
    ["heartbeatInterval", { heartbeatInterval: 5_000 }],
    ["heartbeatInterval", { heartbeatInterval: "365d" }],
    ["options", { postgresURL: "misspelt" }],
  ])("refuses a %s that cannot be before anything is started: %j", async (field, options) => {
    await expect(startTestServer(options)).rejects.toMatchObject({
      ...{ reason: "INVALID_FIELD", metadata: { field } },
    });
  });

  test("that cannot be reached is said so, without its password", async () => {
    const starting = startTestServer({ postgresUrl: "postgres://me:secret@127.0.0.1:1/postgres" });
    await expect(starting).rejects.toMatchObject({ reason: "UNAVAILABLE" });
    await expect(starting).rejects.not.toThrow("secret");
  });
});
