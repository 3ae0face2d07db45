import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Trunkline } from "../../client/src/index.js";
import { postJson } from "../support/connect-json.js";
import { figure, sized, spread } from "../support/full-size.js";
import { startTestPostgres, type TestPostgres } from "../support/postgres.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { throughout, until, within } from "../support/until.js";
import { HEARTBEAT_MS, LoggedServer } from "./support/logged-server.js";
import { Traffic } from "./support/traffic.js";

/** What the issue allows between the database's return and the first call that gets its result. */
const FLOWS_WITHIN_MS = 10_000;
/** How long PostgreSQL is away, longer than the leases of what is running. */
const AWAY_MS = sized(5_000, 60_000);
const LEASE = sized("4s", "20s");

let postgres: TestPostgres;
let server: LoggedServer;

beforeAll(async () => {
  postgres = await startTestPostgres();
  server = await LoggedServer.start({ databaseUrl: postgres.url });
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await postgres.dispose();
});

async function sql<R extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<R[]> {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  try {
    return (await client.query<R>(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** Every call that was opened ended well, with its own input for a result, and no handler was started twice. */
async function expectNothingLost(traffic: Traffic): Promise<void> {
  await within("the results of all calls that were opened", traffic.stop());
  expect(traffic.failures).toEqual([]);
  for (const [input, result] of traffic.results) expect(result).toBe(input);
  const states = await sql("SELECT state, count(*)::int FROM calls WHERE run_id = $1 GROUP BY 1", [
    traffic.run.id,
  ]);
  expect(states).toEqual([{ state: "succeeded", count: expect.any(Number) }]);
  expect(new Set(traffic.starts.map(({ callId }) => callId)).size).toBe(traffic.starts.length);
}

describe("PostgreSQL goes and comes back", () => {
  test.each(["stop", "kill"] as const)(
    "after its %s and start, answers that met it arrive, and no handler was started twice (B15, I5)",
    async (how) => {
      await using traffic = await Traffic.start(server.url);
      const held = await Promise.all(
        Array.from({ length: 5 }, (_, index) =>
          traffic.run.open("held", index, { policy: { mode: index < 3 ? "retry" : "at_most_once" } }),
        ),
      );
      await until("the held calls have started", () => held.every(({ id }) => traffic.startsOf(id) === 1));
      await postgres[how]();
      traffic.letGo();
      await postgres.start();
      expect(await traffic.flows()).toBeLessThan(FLOWS_WITHIN_MS);
      for (const [index, call] of held.entries()) {
        expect(await within("a held call's result", call.outcome())).toMatchObject({ result: index });
        expect(traffic.startsOf(call.id)).toBe(1);
      }
      await expectNothingLost(traffic);
    },
  );

  test("connections that are terminated again and again fail no call, and no handler is started twice", async () => {
    await using traffic = await Traffic.start(server.url);
    let terminated = 0;
    await throughout(2_000, async () => {
      const rows = await sql(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name LIKE 'trunkline%' AND random() < 0.5`,
      );
      terminated += rows.length;
    });
    expect(terminated).toBeGreaterThan(10);
    expect(await traffic.flows()).toBeLessThan(FLOWS_WITHIN_MS);
    await expectNothingLost(traffic);
  });

  test("a database that takes no writes for a while is no database, and is used again when it does", async () => {
    await using traffic = await Traffic.start(server.url);
    const readOnly = async (on: boolean): Promise<void> => {
      const client = new pg.Client({ connectionString: postgres.url });
      await client.connect();
      await client.query(`SET default_transaction_read_only = off`);
      await client.query(`ALTER SYSTEM SET default_transaction_read_only = ${on ? "on" : "off"}`);
      await client.query("SELECT pg_reload_conf()");
      await client.end();
    };
    await readOnly(true);
    await until("NOT_SERVING", async () => !(await server.isServing()));
    await readOnly(false);
    expect(await traffic.flows()).toBeLessThan(FLOWS_WITHIN_MS);
    await expectNothingLost(traffic);
  });
});

describe("PostgreSQL is away for many heartbeat intervals", () => {
  test(
    "the node says so, refuses at once, keeps quiet, and goes on afterwards with every lease alive",
    { timeout: 10 * AWAY_MS + 30_000 },
    async () => {
      await using traffic = await Traffic.start(server.url);
      const held = await Promise.all(
        (["retry", "at_most_once"] as const).map((mode) =>
          traffic.run.open("held", mode, { policy: { mode, heartbeatTimeout: LEASE } }),
        ),
      );
      await until("the held calls have started", () => held.every(({ id }) => traffic.startsOf(id) === 1));
      const watched: boolean[] = [];
      const leaving = new AbortController();
      const watching = (async () => {
        for await (const serving of server.watchHealth(leaving.signal)) watched.push(serving);
      })();
      await until("the health service's first word", () => watched.length === 1);
      const logged = server.lines.length;

      await postgres.stop();
      const stoppedAt = performance.now();
      await until("NOT_SERVING", async () => !(await server.isServing()));
      const noticedMs = performance.now() - stoppedAt;
      figure("NOT_SERVING after", `${Math.round(noticedMs)} ms`);
      expect(noticedMs).toBeLessThan(10 * HEARTBEAT_MS);
      const heapBefore = process.memoryUsage().heapUsed;
      const refusedMs: number[] = [];
      await throughout(AWAY_MS, async () => {
        const from = performance.now();
        const call = { callId: held[0]?.id ?? "" };
        expect((await postJson(server.url, "CallService/GetCall", { call })).reason).toBe("UNAVAILABLE");
        refusedMs.push(performance.now() - from);
        expect(refusedMs.at(-1)).toBeLessThan(1_000);
        expect(await server.isServing()).toBe(false);
      });
      figure("callers were refused in", spread(refusedMs, "ms"));
      expect(process.memoryUsage().heapUsed - heapBefore).toBeLessThan(50 * 1024 * 1024);

      await postgres.start();
      const flowsMs = await traffic.flows();
      figure(
        "a call that was opened at the database's return had its result after",
        `${Math.round(flowsMs)} ms`,
      );
      expect(flowsMs).toBeLessThan(FLOWS_WITHIN_MS);
      traffic.letGo();
      expect(await Promise.all(held.map((call) => call.outcome()))).toMatchObject([
        { result: "retry" },
        { result: "at_most_once" },
      ]);
      for (const call of held) {
        expect(traffic.startsOf(call.id)).toBe(1);
        expect((await traffic.client.calls.get(call.id)).attempt).toBe(1);
      }
      await expectNothingLost(traffic);
      expect(watched).toEqual([true, false, true]);
      expect(server.lines.length - logged).toBeLessThan(20);
      figure(
        "lines logged, and most in one second",
        `${server.lines.length - logged}, ${server.mostLinesInOneSecond(logged)}`,
      );
      expect(server.mostLinesInOneSecond(logged)).toBeLessThan(5);
      leaving.abort();
      await watching;
    },
  );
});

describe("PostgreSQL falls silent", () => {
  test("callers get an answer within seconds, and calls flow on once it can be reached", async () => {
    await using proxy = await TcpProxy.start(Number(new URL(postgres.url).port));
    const databaseUrl = new URL(postgres.url);
    databaseUrl.port = new URL(proxy.url).port;
    await using behind = await LoggedServer.start({ databaseUrl: databaseUrl.href });
    await using traffic = await Traffic.start(behind.url);
    const [first] = traffic.starts;
    const call = { callId: first?.callId ?? "" };
    const ask = (): ReturnType<typeof postJson> => postJson(behind.url, "CallService/GetCall", { call });
    expect(await ask()).toMatchObject({ status: 200 });

    proxy.blackHole();
    const silentAt = performance.now();
    expect((await ask()).reason).toBe("UNAVAILABLE");
    expect(performance.now() - silentAt).toBeLessThan(5_000);
    expect(await behind.isServing()).toBe(false);
    expect((await ask()).reason).toBe("UNAVAILABLE");
    // Connections that were made before carry nothing any more, as behind a router that was started anew.
    proxy.cut("rst");
    proxy.release();
    expect(await traffic.flows()).toBeLessThan(FLOWS_WITHIN_MS);

    proxy.blackHole();
    await until("NOT_SERVING", async () => !(await behind.isServing()));
    proxy.release();
    expect(await traffic.flows()).toBeLessThan(FLOWS_WITHIN_MS);
    await expectNothingLost(traffic);
  });

  test("a node whose database is silent stops in time", async () => {
    await using proxy = await TcpProxy.start(Number(new URL(postgres.url).port));
    const databaseUrl = new URL(postgres.url);
    databaseUrl.port = new URL(proxy.url).port;
    const behind = await LoggedServer.start({ databaseUrl: databaseUrl.href });
    await using client = new Trunkline({ url: behind.url, onWarning: () => undefined });
    await client.runs.create();
    proxy.blackHole();
    await until("NOT_SERVING", async () => !(await behind.isServing()));
    await within("the end of the node", behind[Symbol.asyncDispose](), 10_000);
  });
});
