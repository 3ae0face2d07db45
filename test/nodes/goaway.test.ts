import { afterEach, expect, test } from "vitest";
import { Trunkline, type WorkerStatus } from "../../client/src/index.js";
import { createLog } from "../../server/src/log.js";
import { startServer, type Server } from "../../server/src/server.js";
import { gate } from "../client/support/claim.js";
import { useDatabase } from "../support/database.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

const database = useDatabase();

/** Above the second in which a client takes a goaway for a node's last word. */
const MAX_STREAM_AGE_MS = 2_000;

const servers: Server[] = [];

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.stop({ graceMs: 200 })));
});

async function node(): Promise<Server> {
  const server = await startServer({
    databaseUrl: database.url,
    port: 0,
    rootKey: null,
    insecure: true,
    heartbeatIntervalMs: 200,
    maxStreamAgeMs: MAX_STREAM_AGE_MS,
    log: createLog("error"),
  });
  servers.push(server);
  return server;
}

test("a stream that is old is followed by one on a new connection, perhaps to another node, before it ends", async () => {
  const [one, two] = await Promise.all([node(), node()]);
  await using workerSide = await TcpProxy.start(one.port, two.port);
  await using harnessSide = await TcpProxy.start(one.port, two.port);
  const working = new Trunkline({ url: workerSide.url, onWarning: () => undefined });
  const harness = new Trunkline({ url: harnessSide.url, onWarning: () => undefined });
  const statuses: WorkerStatus[] = [];
  const errors: unknown[] = [];
  const finish = gate();
  const starts: string[] = [];
  const worker = working.worker({
    concurrency: 3,
    onStatus: (status) => statuses.push(status),
    onError: (error) => errors.push(error),
    tools: {
      long: async (_, { idempotencyKey }) => {
        starts.push(idempotencyKey);
        await finish.promise;
        return "long";
      },
      short: (_, { idempotencyKey }) => starts.push(idempotencyKey),
    },
  });
  const run = await harness.runs.create();
  const long = await Promise.all([
    run.open("long", null, { policy: { mode: "retry" } }),
    run.open("long", null, { policy: { mode: "at_most_once" } }),
  ]);
  await until("the long ones run", () => starts.length === 2);
  const overlaps = { worker: false, harness: false };
  const short: string[] = [];
  // The requests of the client beside its streams have a connection of their own.
  const others = harnessSide.connections - 1;
  await until("both have moved twice, and calls flowed all the time", async () => {
    const call = await run.open("short", null, {
      policy: { mode: short.length % 2 ? "retry" : "at_most_once" },
    });
    const outcome = await call.outcome();
    short.push(`${outcome.state} ${outcome.attempt}`);
    overlaps.worker ||= workerSide.open > 1;
    overlaps.harness ||= harnessSide.open > 1 + others;
    return workerSide.connections >= 3 && harnessSide.connections >= 3 + others;
  });
  finish.open();
  expect(await Promise.all(long.map((call) => call.outcome()))).toMatchObject([
    { state: "succeeded", attempt: 1 },
    { state: "succeeded", attempt: 1 },
  ]);
  await worker.stop();
  await Promise.all([working.close(), harness.close()]);
  expect(new Set(short)).toEqual(new Set(["succeeded 1"]));
  expect(starts).toHaveLength(new Set(starts).size);
  expect(overlaps).toEqual({ worker: true, harness: true });
  expect({ statuses, errors }).toEqual({ statuses: ["connected", "draining", "stopped"], errors: [] });
});
