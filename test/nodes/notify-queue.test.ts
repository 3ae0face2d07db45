import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ServerProcess } from "../support/server-process.js";
import { startTestPostgres, type TestPostgres } from "../support/postgres.js";
import { clientOf } from "../support/stack.js";

let postgres: TestPostgres;

beforeAll(async () => {
  postgres = await startTestPostgres({ durable: false });
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  // The smallest that there is, half a megabyte, instead of eight gigabytes.
  await client.query("ALTER SYSTEM SET max_notify_queue_pages = 64");
  await client.end();
  await postgres.stop();
  await postgres.start();
});

afterAll(() => postgres.dispose());

test("a full NOTIFY queue fails no call: they cross nodes by polling until it has room again (S19)", async () => {
  await using one = await ServerProcess.start({ databaseUrl: postgres.url });
  await using two = await ServerProcess.start({ databaseUrl: postgres.url });
  await using harness = clientOf(one.url);
  await using host = clientOf(two.url);
  host.worker({ tools: { echo: (input) => input } });
  const run = await harness.runs.create();
  const sleeper = new pg.Client({ connectionString: postgres.url });
  const flooder = new pg.Client({ connectionString: postgres.url });
  await Promise.all([sleeper.connect(), flooder.connect()]);
  try {
    // Who listens and stays in a transaction keeps the queue from being emptied.
    await sleeper.query("LISTEN flood");
    await sleeper.query("BEGIN");
    await sleeper.query("SELECT 1");
    const flood = async (): Promise<void> => {
      for (let count = 0; count < 1_000; count++) {
        await flooder.query("SELECT pg_notify('flood', $1)", [String(count).padEnd(7_900)]);
      }
    };
    await expect(flood()).rejects.toThrow(/too many notifications/);
    const calls = Array.from({ length: 20 }, (_, input) => run.call("echo", input));
    expect(await Promise.all(calls)).toEqual(calls.map((_, input) => input));
    expect(one.log).toMatch(/too many notifications/);
    await sleeper.query("COMMIT");
    // Asking for the usage lets go of what everybody has read; otherwise that takes PostgreSQL a while.
    await sleeper.query("SELECT pg_notification_queue_usage()");
    await expect.poll(() => timed(() => run.call("echo")), { timeout: 15_000 }).toBeLessThan(200);
  } finally {
    await Promise.all([sleeper.end(), flooder.end()]);
  }
});

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}
