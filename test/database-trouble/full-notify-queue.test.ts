import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestPostgres, type TestPostgres } from "../support/postgres.js";
import { until } from "../support/until.js";
import { LoggedServer } from "./support/logged-server.js";
import { Traffic } from "./support/traffic.js";

let postgres: TestPostgres;

beforeAll(async () => {
  postgres = await startTestPostgres({ durable: false });
});

afterAll(async () => {
  await postgres.dispose();
});

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: postgres.url });
  client.on("error", () => undefined);
  await client.connect();
  return client;
}

test("a notification queue that is full fails no call, and what other nodes do is found by polling (S19)", async () => {
  const admin = await connect();
  await admin.query("ALTER SYSTEM SET max_notify_queue_pages = 64");
  await admin.end();
  await postgres.stop();
  await postgres.start();
  await using server = await LoggedServer.start({ databaseUrl: postgres.url });
  await using other = await LoggedServer.start({ databaseUrl: postgres.url });
  // A session that listens and never ends its transaction keeps all that is sent in the queue.
  const deaf = await connect();
  await deaf.query("LISTEN something");
  await deaf.query("BEGIN");
  await deaf.query("SELECT 1");
  const sender = await connect();
  const full = await until("a full queue", async () =>
    sender
      .query("SELECT pg_notify('something', repeat('x', 7000) || n) FROM generate_series(1, 50) n")
      .then(() => undefined)
      .catch((error: unknown) => error),
  );
  expect(full).toMatchObject({ message: expect.stringContaining("NOTIFY queue") });

  const logged = server.lines.length;
  await using traffic = await Traffic.start(server.url, 5);
  // A worker of the other node: only a hint, or the poll, tells it.
  await using elsewhere = await Traffic.start(other.url, 0);
  const far = elsewhere.client.worker({ tools: { far: (input) => input } });
  expect(await traffic.run.call("far", "from the other node")).toBe("from the other node");
  await traffic.stop();
  expect(traffic.failures).toEqual([]);
  expect(server.mostLinesInOneSecond(logged)).toBeLessThan(5);
  await far.stop();
  await deaf.end();
  await sender.end();
});
