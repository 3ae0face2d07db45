import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serverUrl } from "../support/database.js";
import { withDatabase } from "../support/postgres.js";
import { ServerProcess } from "../support/server-process.js";
import { clientOf } from "../support/stack.js";

const admin = new pg.Pool({ connectionString: serverUrl(), max: 1 });
const names: string[] = [];

beforeAll(async () => {
  await admin.query("SELECT 1");
});
afterAll(async () => {
  for (const name of names) await admin.query(`DROP DATABASE ${name}`);
  await admin.end();
});

/** A database without any schema. */
async function makeEmpty(): Promise<string> {
  const name = `trunkline_test_empty_${randomBytes(6).toString("hex")}`;
  await admin.query(`CREATE DATABASE ${name}`);
  names.push(name);
  return withDatabase(serverUrl(), name);
}

describe("S09: servers that start at once on an empty database", () => {
  test("all come up, and serve each other's calls", async () => {
    const databaseUrl = await makeEmpty();
    const starting = [1, 2, 3].map(() => ServerProcess.start({ databaseUrl }));
    const [first, second, third] = await Promise.all(starting);
    await using one = first;
    await using two = second;
    await using three = third;
    await using harness = clientOf(one?.url ?? "");
    await using host = clientOf(two?.url ?? "");
    host.worker({ tools: { where: (_, { runId }) => runId } });
    const run = await harness.runs.create();
    expect(await run.call("where")).toBe(run.id);
    expect([one, two, three].flatMap((server) => server?.faults ?? [])).toEqual([]);
  });
});

describe("S11: a server and a database in zones on either side of the date line", () => {
  test("agree with a client in a third one about every time", async () => {
    const databaseUrl = await makeEmpty();
    const name = names.at(-1) ?? "";
    await admin.query(`ALTER DATABASE ${name} SET timezone = 'Pacific/Pago_Pago'`);
    await using server = await ServerProcess.start({ databaseUrl, env: { TZ: "Pacific/Kiritimati" } });
    await using client = clientOf(server.url);
    const before = Date.now();
    const run = await client.runs.create({ ttl: "2h" });
    const policy = { totalTimeout: "1h" } as const;
    const call = await (await run.open("unserved", null, { policy })).status();
    const hour = 60 * 60 * 1000;
    const near = (at: Date | undefined, ms: number): void => {
      expect(Math.abs((at?.getTime() ?? 0) - before - ms)).toBeLessThan(5_000);
    };
    near(run.info?.createdAt, 0);
    near(run.info?.expiresAt, 2 * hour);
    near(call.openedAt, 0);
    near(call.totalTimeoutAt, hour);
    await client.calls.settle(call.id, { type: "tool.result" });
    near((await client.calls.get(call.id)).endedAt, 0);
  });
});
