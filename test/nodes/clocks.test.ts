import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { faketimeEnvironment, findFaketime, shiftClock } from "../fault-run/stage/faketime.mjs";
import { attached } from "../support/stack.js";
import { lasting, until } from "../support/until.js";
import { WorkerProcess } from "../support/worker-process.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();
const FAKETIME = findFaketime();

const LEASE_MS = 2_000;
const policy = { heartbeatTimeout: `${LEASE_MS}ms` } as const;

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "trunkline-clocks-"));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

/** The environment of a process whose clock is wrong, and what makes it wrong in another way. */
function clock(name: string, seconds: number) {
  const file = join(folder, name);
  shiftClock(file, seconds);
  return { env: faketimeEnvironment(FAKETIME ?? "", file), shift: (to: number) => shiftClock(file, to) };
}

const title = FAKETIME === undefined ? " (skipped: libfaketime is not installed)" : "";

describe.runIf(FAKETIME)(`nodes and workers whose clocks are wrong${title}`, () => {
  test("take no live claim from each other, and a dead worker's call is retaken by real time (B11)", async () => {
    const here = clock("one", 0);
    const ahead = clock("two", 120);
    const [one, two] = await Promise.all([nodes.start({ env: here.env }), nodes.start({ env: ahead.env })]);
    await using worker = new WorkerProcess(
      { url: one.url, name: "a day ahead", tools: ["slow"], concurrency: 4 },
      clock("worker", 86_400).env,
    );
    await attached(nodes.database, worker);
    const run = await nodes.client(one.url).runs.create();
    const open = (mode: "retry" | "at_most_once") =>
      run.open("slow", [{ wait: "finish" }], { policy: { ...policy, mode } });
    const calls = await Promise.all([open("retry"), open("at_most_once")]);
    for (const call of calls) await worker.told("waiting", call.id);
    let given = 0;
    const idle = nodes.client(two.url).worker({ tools: { slow: () => ++given } });
    // For longer than a lease each: two minutes ahead, two behind, and a step back on the worker's own node.
    await lasting(LEASE_MS * 0.75);
    ahead.shift(-120);
    await lasting(LEASE_MS * 0.75);
    here.shift(-3_600);
    await lasting(LEASE_MS * 0.75);
    expect(given).toBe(0);
    worker.go("finish");
    for (const call of calls) expect(await call.outcome()).toMatchObject({ state: "succeeded", attempt: 1 });
    expect(await worker.starts()).toBe(2);

    // Of a worker that falls silent, by the database's time.
    const lost = await run.open("slow", [{ wait: "never" }], { policy });
    await idle.stop();
    const held = await until("the worker has the call", async () => {
      const call = await lost.status();
      return call.state === "claimed" && call;
    });
    await worker.told("waiting", held.id).catch(() => undefined);
    worker.pause();
    const pausedAt = performance.now();
    nodes.client(two.url).worker({ tools: { slow: () => "taken" } });
    expect(await lost.outcome()).toMatchObject({ result: "taken", attempt: 2 });
    const tookMs = performance.now() - pausedAt;
    expect(tookMs).toBeGreaterThan(LEASE_MS - 1_000);
    expect(tookMs).toBeLessThan(LEASE_MS + 5_000);
  });

  test("show the same instants on all nodes, and end what is due by the database's time (B11)", async () => {
    const [one, two] = await Promise.all([
      nodes.start({ env: clock("three", -120).env }),
      nodes.start({ env: clock("four", 120).env }),
    ]);
    const run = await nodes.client(one.url).runs.create({ ttl: "1h" });
    const now = await nodes.database.pool().query<{ now: Date }>("SELECT now() AS now");
    const databaseNow = now.rows[0]?.now.getTime() ?? NaN;
    const call = await run.open("nobody", null, { policy: { totalTimeout: "10m" } });
    const shown = await Promise.all([one, two].map(({ url }) => nodes.client(url).calls.get(call.id)));
    for (const { openedAt, totalTimeoutAt } of shown) {
      expect(Math.abs((openedAt?.getTime() ?? NaN) - databaseNow)).toBeLessThan(1_000);
      expect(Math.abs((totalTimeoutAt?.getTime() ?? NaN) - databaseNow - 600_000)).toBeLessThan(1_000);
    }
    const info = await nodes.client(two.url).runs.get(run.id);
    expect(Math.abs((info.expiresAt?.getTime() ?? NaN) - databaseNow - 3_600_000)).toBeLessThan(2_000);
    nodes.client(two.url).worker({
      tools: {
        ask: async (_, ctx) => {
          await ctx.defer({ timeout: "1500ms" });
        },
      },
    });
    const deferred = await run.open("ask");
    const openedAt = performance.now();
    expect(await deferred.outcome()).toMatchObject({ error: { kind: "defer_timeout" } });
    const tookMs = performance.now() - openedAt;
    expect(tookMs).toBeGreaterThan(1_400);
    expect(tookMs).toBeLessThan(5_000);
  });
});
