import { describe, expect, test } from "vitest";
import { Trunkline } from "../../client/src/index.js";
import { newRun, request, useExchanges } from "../exchange/support/exchanges.js";
import { LoggedServer } from "./support/logged-server.js";

const exchanges = useExchanges();
const { database } = exchanges;

const DEFERRED = 20_000;
const UNSERVED = 10_000;
/** Calls that are opened at once, for a worker with room for a few: most of them are claimed from the queue. */
const BURST = 40;
const CONCURRENCY = 4;
const RUN_MS = 15_000;
const PART_MS = 4_000;

interface Burst {
  readonly at: number;
  /** From the opening of the calls to the last handler's start, per call. */
  readonly claimMs: number;
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

describe("a snapshot that is held open while calls come and go, besides many that wait", () => {
  test("does not slow claims down (B29)", async () => {
    const { exchange } = await exchanges.start();
    const run = await newRun(exchange);
    await Promise.all([
      ...Array.from({ length: DEFERRED }, () =>
        exchange.open(request(run, { tool: "asks a person", executor: "client" })),
      ),
      ...Array.from({ length: UNSERVED }, () => exchange.open(request(run, { tool: "served by nobody" }))),
    ]);
    const old = await database.pool().connect();
    await old.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await old.query("SELECT count(*) FROM runs");

    await using server = await LoggedServer.start({ databaseUrl: database.url });
    await using client = new Trunkline({ url: server.url, onWarning: () => undefined });
    let lastStart = 0;
    client.worker({
      tools: {
        echo: (input) => {
          lastStart = performance.now();
          return input;
        },
      },
      concurrency: CONCURRENCY,
    });
    const busy = await client.runs.create();
    await busy.call("echo", "warm");
    const bursts: Burst[] = [];
    const from = performance.now();
    for (let at = 0; at < RUN_MS; at = performance.now() - from) {
      const begun = performance.now();
      await Promise.all(Array.from({ length: BURST }, (_, index) => busy.call("echo", index)));
      bursts.push({ at, claimMs: (lastStart - begun) / BURST });
    }
    await old.query("COMMIT");
    old.release();

    const begin = bursts.filter(({ at }) => at < PART_MS).map(({ claimMs }) => claimMs);
    const end = bursts.filter(({ at }) => at >= RUN_MS - PART_MS).map(({ claimMs }) => claimMs);
    expect(bursts.length * BURST).toBeGreaterThan(2_000);
    expect(median(end)).toBeLessThan(5 * median(begin));
    const { rows } = await database
      .pool()
      .query(
        "SELECT n_tup_upd::int AS updates, n_tup_hot_upd::int AS hot FROM pg_stat_user_tables WHERE relname = 'sessions'",
      );
    // Heartbeats touch no index (HOT).
    expect(rows[0].hot).toBeGreaterThan(0.8 * rows[0].updates);
  });
});
