import { beforeAll, describe, expect, test } from "vitest";
import { startServer } from "../../server/src/server.js";
import { explainDatabaseError } from "../../server/src/cli/database-problem.js";
import { createLog } from "../../server/src/log.js";
import { findPrimary } from "../../server/src/store/servers.js";
import { until, within } from "../support/until.js";
import { LoggedServer } from "./support/logged-server.js";
import { PostgresPair } from "./support/postgres-pair.js";
import { Traffic } from "./support/traffic.js";

const FLOWS_WITHIN_MS = 10_000;

let pair: PostgresPair;

beforeAll(async () => {
  pair = await PostgresPair.start();
  return () => pair[Symbol.asyncDispose]();
});

describe("a standby", () => {
  test("alone is refused at the start, with a word about what it is", async () => {
    const start = startServer({
      databaseUrl: pair.standby.url,
      port: 0,
      rootKey: null,
      insecure: true,
      log: createLog("silent"),
    });
    const error = await start.then(
      () => undefined,
      (reason: unknown) => explainDatabaseError(reason, pair.standby.url),
    );
    expect(error).toMatchObject({ reason: "UNAVAILABLE", message: expect.stringContaining("standby") });
  });

  test("is passed over for the server that takes writes, wherever in the list it is", async () => {
    expect(await findPrimary(pair.url)).toBe(pair.primary.url);
  });
});

describe("a failover", () => {
  test("to a promoted standby loses nothing that was acknowledged, and calls flow within 10 s (I5)", async () => {
    await using server = await LoggedServer.start({ databaseUrl: pair.url });
    await using traffic = await Traffic.start(server.url);
    const held = await Promise.all(
      (["retry", "at_most_once"] as const).map((mode) =>
        traffic.run.open("held", mode, { policy: { mode } }),
      ),
    );
    await until("the held calls have started", () => held.every(({ id }) => traffic.startsOf(id) === 1));
    const logged = server.lines.length;
    await pair.primary.kill();
    traffic.letGo();
    const acknowledged = new Map(traffic.results);
    await until("NOT_SERVING", async () => !(await server.isServing()));
    await pair.promote();
    expect(await traffic.flows()).toBeLessThan(FLOWS_WITHIN_MS);
    expect(await Promise.all(held.map((call) => call.outcome()))).toMatchObject([
      { result: "retry" },
      { result: "at_most_once" },
    ]);
    await within("the results of all calls that were opened", traffic.stop());
    expect(traffic.failures).toEqual([]);
    for (const [input, result] of traffic.results) expect(result).toBe(input);
    expect(acknowledged.size).toBeGreaterThan(0);
    const rows = await pair.standby.sql(
      `SELECT state, result::text AS result FROM calls WHERE run_id = '${traffic.run.id}' AND tool = 'echo'`,
    );
    expect(rows.filter(({ state }) => state !== "succeeded")).toEqual([]);
    const kept = new Set(rows.map(({ result }) => result));
    expect([...traffic.results.values()].filter((result) => !kept.has(JSON.stringify(result)))).toEqual([]);
    expect(new Set(traffic.starts.map(({ callId }) => callId)).size).toBe(traffic.starts.length);
    expect(server.mostLinesInOneSecond(logged)).toBeLessThan(5);
  });

  test("is not undone by the old primary, which comes back and still takes itself for one", async () => {
    await pair.primary.start();
    expect(await pair.primary.sql("SELECT pg_is_in_recovery() AS standby")).toEqual([{ standby: false }]);
    expect(await findPrimary(pair.url)).toBe(pair.standby.url);
    const url = new URL(pair.standby.url);
    const primaryFirst = pair.standby.url.replace(url.host, `${new URL(pair.primary.url).host},${url.host}`);
    expect(await findPrimary(primaryFirst)).toBe(pair.standby.url);
  });
});
