import { describe, expect, test } from "vitest";
import { Trunkline } from "../../client/src/index.js";
import { useDatabase } from "../support/database.js";
import { ServerProcess } from "../support/server-process.js";
import { until, within } from "../support/until.js";
import { SlowLine } from "./support/slow-line.js";

const database = useDatabase();

const STEADY_WITHIN_MS = 20_000;

interface Sample {
  readonly at: number;
  readonly back: number;
  readonly stuck: number;
}

/** How many of the workers have said hello again, and which sessions of the database are stuck in a transaction. */
async function look(): Promise<Sample> {
  const { rows } = await database.pool().query<{ back: number; stuck: number }>(
    `SELECT
      (SELECT count(*)::int FROM sessions WHERE state = 'attached' AND epoch >= 2) AS back,
      (SELECT count(*)::int FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'
          AND now() - state_change > interval '1 s') AS stuck`,
  );
  const [row] = rows;
  return { at: performance.now(), back: row?.back ?? 0, stuck: row?.stuck ?? 0 };
}

/** The most that came back within any second, by samples of how many were back. */
function mostInOneSecond(samples: readonly Sample[]): number {
  return Math.max(
    ...samples.map(
      ({ at, back }) =>
        Math.max(...samples.filter((each) => each.at <= at + 1_000).map((each) => each.back)) - back,
    ),
  );
}

describe("many workers and harnesses on a pool of five connections", () => {
  // Workers spread their first try over one heartbeat interval.
  test.each([
    { workers: 200, harnesses: 100, latencyMs: 0, heartbeatInterval: "5s", most: 0.75 },
    { workers: 100, harnesses: 50, latencyMs: 100, heartbeatInterval: "1s", most: 1 },
  ])(
    "come back after their node's death, and no lease lapses; statements take $latencyMs ms more (B28)",
    async ({ workers, harnesses, latencyMs, heartbeatInterval, most }) => {
      await using line = await SlowLine.start(database.url, latencyMs);
      await database.pool().query("TRUNCATE sessions, calls, nodes");
      await using server = await ServerProcess.start({
        databaseUrl: line.url,
        heartbeatInterval,
        flags: ["--pool", "5"],
      });
      const { url } = server;
      const newClient = (): Trunkline => new Trunkline({ url, onWarning: () => undefined });
      const clients = Array.from({ length: harnesses }, newClient);
      const [client = newClient()] = clients;
      let starts = 0;
      let letGo = (): void => undefined;
      const gate = new Promise<void>((resolve) => (letGo = resolve));
      const held = async (): Promise<string> => {
        starts++;
        await gate;
        return "done";
      };
      Array.from({ length: workers }, () =>
        client.worker({ tools: { held }, concurrency: 1, onError: (error) => errors.push(error) }),
      );
      const errors: unknown[] = [];
      const run = await client.runs.create();
      const policy = { heartbeatTimeout: "15s" } as const;
      const holding = Array.from({ length: workers }, () => run.call("held", null, { policy }));
      const waiting = clients.map((each, index) => each.runs.open(run.id).call("later", index));
      await until("every worker has a call", () => starts === workers);

      await server.kill();
      await server.start();
      const restartedAt = performance.now();
      const samples: Sample[] = [];
      await until("every worker is back", async () => {
        samples.push(await look());
        return samples.at(-1)?.back === workers;
      });
      expect(performance.now() - restartedAt).toBeLessThan(STEADY_WITHIN_MS);
      expect(mostInOneSecond(samples)).toBeLessThanOrEqual(most * workers);
      expect(Math.max(...samples.map(({ stuck }) => stuck))).toBe(0);

      letGo();
      expect(new Set(await within("what was held", Promise.all(holding)))).toEqual(new Set(["done"]));
      client.worker({ tools: { later: (input) => input }, concurrency: harnesses });
      expect(await within("what was waited for", Promise.all(waiting))).toEqual(
        waiting.map((_, index) => index),
      );
      const calls = Array.from({ length: 50 }, (_, index) => run.call("later", index));
      await within("ten times as many calls as connections", Promise.all(calls));
      const { rows } = await database
        .pool()
        .query("SELECT max(attempt) AS attempt, max(spent) AS spent FROM calls WHERE tool = 'held'");
      expect(rows).toEqual([{ attempt: 1, spent: 1 }]);
      expect(starts).toBe(workers);
      expect(errors).toEqual([]);
      expect(performance.now() - restartedAt).toBeLessThan(STEADY_WITHIN_MS);
      await Promise.all(clients.map((each) => each.close()));
    },
  );
});
