import { randomBytes, randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { createClient, ConnectError, Code } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";
import { RunService } from "@trunkline/proto/run";
import { Trunkline } from "../../client/src/index.js";
import { LIMITS } from "../../server/src/core/limits.js";
import { useExchanges, newRun, request } from "../exchange/support/exchanges.js";
import { RawWorker } from "../support/raw-worker.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { throughout, until, within } from "../support/until.js";
import { HEARTBEAT_MS, LoggedServer } from "./support/logged-server.js";
import { Traffic } from "./support/traffic.js";

const exchanges = useExchanges();
const { database } = exchanges;

/**
 * Makes all that needs a table wait until it is let go: with `runs`, whatever opens, creates or claims, which fills
 * a node's pool.
 */
async function hold(table: "runs" | "sessions"): Promise<{ letGo(): Promise<void> }> {
  const client = await database.pool().connect();
  await client.query("BEGIN");
  await client.query(`LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
  return {
    letGo: async () => {
      await client.query("ROLLBACK");
      client.release();
    },
  };
}

async function waitingStatements(): Promise<number> {
  const { rows } = await database.pool().query<{ n: number }>(
    `SELECT count(*)::int AS n FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'trunkline' AND wait_event_type = 'Lock'`,
  );
  return rows[0]?.n ?? 0;
}

describe("a node with a pool of one connection", () => {
  test("does everything with it: nothing takes a second one while it holds one", async () => {
    await using server = await LoggedServer.start({ databaseUrl: database.url, maxConnections: 1 });
    await using traffic = await Traffic.start(server.url, 5);
    const { client } = traffic;
    await client.toolsets.put("busy", { echo: { description: "says it again" } });
    const all = Array.from({ length: 40 }, async (_, index) => {
      const run = await client.runs.create({ toolset: "busy", labels: { n: String(index) } });
      const worker = client.worker({ tools: { [`own-${index}`]: () => index } });
      expect(await run.call("echo", index)).toBe(index);
      const turn = run.turn(1);
      await turn.open("echo", "in a turn");
      await turn.settled();
      await client.runs.list({ labels: { n: String(index) } });
      await run.end();
      await worker.stop();
    });
    await within("everything at once", Promise.all(all));
  });
});

describe("a pool of which every connection is taken", () => {
  test("lets no lease lapse, and takes hellos (B28)", async () => {
    await using server = await LoggedServer.start({ databaseUrl: database.url, maxConnections: 5 });
    await using traffic = await Traffic.start(server.url, 40);
    const held = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        traffic.run.open("held", index, { policy: { heartbeatTimeout: "1s", detachGrace: "1s" } }),
      ),
    );
    await until("the held calls have started", () => held.every(({ id }) => traffic.startsOf(id) === 1));
    const jam = await hold("runs");
    const lists = Array.from({ length: 20 }, () => traffic.client.runs.list());
    await until("a full pool", async () => (await waitingStatements()) === 5);
    await throughout(2_500, async () => {
      await using worker = await RawWorker.connect(server.url, ["late"]);
      expect(worker.all("revoked")).toEqual([]);
      expect(await server.isServing()).toBe(true);
    });
    await jam.letGo();
    traffic.letGo();
    await within("the lists", Promise.all(lists));
    for (const call of held) {
      expect(await call.outcome()).toMatchObject({ state: "succeeded" });
      expect(traffic.startsOf(call.id)).toBe(1);
    }
    await within("the results of all calls", traffic.stop());
    expect(traffic.failures).toEqual([]);
  });
});

describe("a hello that has to wait", () => {
  test("for longer than three heartbeat intervals is not taken for a worker that went silent", async () => {
    await using server = await LoggedServer.start({ databaseUrl: database.url });
    const jam = await hold("sessions");
    const connecting = RawWorker.connect(server.url, ["patient"]);
    await throughout(6 * HEARTBEAT_MS, () => undefined);
    await jam.letGo();
    await using worker = await connecting;
    expect(worker.all("revoked")).toEqual([]);
  });
});

describe("a worker that does not read", () => {
  test("is sent no more than a few mebibytes, whatever it granted, and the rest once it reads", async () => {
    await using server = await LoggedServer.start({ databaseUrl: database.url, heartbeatIntervalMs: 5_000 });
    await using proxy = await TcpProxy.start(Number(new URL(server.url).port));
    await using worker = await RawWorker.connect(proxy.url, ["large"]);
    await using client = new Trunkline({ url: server.url, onWarning: () => undefined });
    const run = await client.runs.create();
    proxy.hold("down");
    // What compresses well would take no room on the line.
    const input = randomBytes(LIMITS.payloadBytes * 0.7).toString("base64");
    for (let opened = 0; opened < 40; opened++) await run.open("large", input);
    const claimed = async (): Promise<number> => {
      const { rows } = await database
        .pool()
        .query<{ n: number }>(
          "SELECT count(*)::int AS n FROM calls WHERE run_id = $1 AND state = 'claimed'",
          [run.id],
        );
      return rows[0]?.n ?? 0;
    };
    await throughout(1_000, async () => expect(await claimed()).toBeLessThan(25));
    expect(await claimed()).toBeGreaterThan(0);
    proxy.release();
    await worker.some("claims", 40);
  });
});

describe("too much", () => {
  test("unary requests are refused with a delay to come back after, and the SDK comes back", async () => {
    await using server = await LoggedServer.start({ databaseUrl: database.url, maxConnections: 5 });
    const raw = createClient(RunService, createGrpcTransport({ baseUrl: server.url }));
    await raw.listRuns({});
    const jam = await hold("runs");
    let answered = 0;
    const first = Array.from({ length: LIMITS.requestsInFlight }, () =>
      raw.createRun({ spec: { key: randomUUID() } }).finally(() => answered++),
    );
    for (const one of first) one.catch(() => undefined);
    const refused = await until("a refusal", async () => {
      const error = await raw
        .createRun({ spec: { key: randomUUID() } }, { timeoutMs: 500 })
        .catch((reason: unknown) => ConnectError.from(reason));
      return error instanceof ConnectError && error.code === Code.ResourceExhausted ? error : undefined;
    });
    const [problem] = refused.findDetails(ProblemSchema);
    expect(Reason[problem?.reason ?? 0]).toBe("OVERLOADED");
    expect(problem?.retryAfter).toBeDefined();
    expect(await server.isServing()).toBe(true);
    await using client = new Trunkline({ url: server.url });
    const later = client.runs.create();
    expect(answered).toBe(0);
    await jam.letGo();
    await within("the runs that were taken", Promise.all(first));
    expect((await within("the run that was refused at first", later)).id).toBeDefined();
  });
});

describe("opens that wait", () => {
  test("are refused above their bytes, and those that were taken are stored", async () => {
    const { exchange } = await exchanges.start();
    const run = await newRun(exchange);
    const inputJson = JSON.stringify("x".repeat(LIMITS.payloadBytes - 2));
    const jam = await hold("runs");
    const opens = Array.from({ length: 150 }, () => exchange.open(request(run, { inputJson })));
    const settled = Promise.allSettled(opens);
    await jam.letGo();
    const outcomes = await settled;
    const refused = outcomes.filter((outcome) => outcome.status === "rejected");
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.length).toBeLessThanOrEqual(150 - LIMITS.opensWaitingBytes / LIMITS.payloadBytes + 1);
    for (const { reason } of refused) expect(reason).toMatchObject({ reason: "OVERLOADED" });
    const { rows } = await database
      .pool()
      .query("SELECT count(*)::int AS n FROM calls WHERE run_id = $1", [run.record.id]);
    expect(rows).toEqual([{ n: 150 - refused.length }]);
  });
});

afterAll(async () => {
  const { rows } = await database
    .pool()
    .query("SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()");
  // Upkeep, hellos, opens and ends take their locks in one order (S08).
  expect(rows).toEqual([{ deadlocks: 0 }]);
});
