import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CallHandle, Run } from "@trunkline/sdk";
import { useStack } from "../support/stack.js";
import { throughout } from "../support/until.js";
import type { WorkerProcess } from "../support/worker-process.js";

const stack = useStack();

const DAY_MS = 24 * 60 * 60 * 1000;
/** Node's timers hold 24 days, and not 25; 50 days wrap around to a positive number. */
const DAYS = [24, 25, 30, 50] as const;

const overflows: Error[] = [];
const onWarning = (warning: Error): void => {
  if (warning.name === "TimeoutOverflowWarning") overflows.push(warning);
};

let worker: WorkerProcess;
let run: Run;

beforeAll(async () => {
  process.on("warning", onWarning);
  worker = await stack.worker({ name: "waits", tools: ["waits", "works"] });
  run = await stack.client.runs.create({ ttl: "60d" });
});
afterAll(async () => {
  await worker.kill();
  process.off("warning", onWarning);
});

/** The database's time. */
async function now(): Promise<number> {
  const { rows } = await stack.database.pool().query("SELECT extract(epoch FROM now()) * 1000 AS ms");
  return Number(rows[0].ms);
}

function expectIn(at: Date | undefined, ms: number, from: number): void {
  expect(Math.abs((at?.getTime() ?? 0) - from - ms)).toBeLessThan(1_000);
}

describe("B07: limits that no timer of Node's can hold", () => {
  const deferred: { call: CallHandle; expiresAt: number; days: number }[] = [];
  const timed: CallHandle[] = [];

  test("are kept to the second, for deferrals, calls and attempts, and fire neither now nor after a restart", async () => {
    for (const days of DAYS) {
      const before = await now();
      const call = await run.open("waits", [{ defer: { timeout: `${days}d` } }]);
      const { expiresAt } = await worker.told("deferred", call.id);
      expectIn(new Date(expiresAt ?? 0), days * DAY_MS, before);
      expectIn((await call.status()).deferTimeoutAt, days * DAY_MS, before);
      deferred.push({ call, expiresAt: expiresAt ?? 0, days });
      const policy = { totalTimeout: `${days}d`, attemptTimeout: `${days}d` } as const;
      const other = await run.open("works", [{ wait: "end" }], { policy, turn: 1 });
      await worker.told("waiting", other.id);
      const status = await other.status();
      expectIn(status.totalTimeoutAt, days * DAY_MS, before);
      expectIn(status.attemptTimeoutAt, days * DAY_MS, before);
      timed.push(other);
    }
    const nothingFires = (): Promise<void> =>
      throughout(1_500, async () => {
        for (const { call, expiresAt } of deferred) {
          const status = await call.status();
          expect(status).toMatchObject({ state: "deferred", attempt: 1 });
          expect(status.deferTimeoutAt?.getTime()).toBe(expiresAt);
        }
        for (const call of timed) expect(await call.status()).toMatchObject({ state: "claimed", attempt: 1 });
      });
    await nothingFires();
    await stack.server.restart();
    await nothingFires();
  });

  test("are waited out by a harness that waits for 30 days", async () => {
    const settled = run.turn(1).settled({ timeout: "30d" });
    const state = await Promise.race([
      settled.then(() => "settled"),
      throughout(1_000, () => undefined).then(() => "waiting"),
    ]);
    expect(state).toBe("waiting");
    worker.go("end");
    expect(await settled).toHaveLength(DAYS.length);
  });

  test("are stopped for, too: a worker may stop within 30 days", async () => {
    const stopping = stack.client.worker({ tools: { unused: () => null } });
    await stopping.stop({ timeout: "30d" });
  });

  test("made no process warn that a timer overflowed", () => {
    expect(overflows).toEqual([]);
    expect(worker.stderr).not.toContain("TimeoutOverflowWarning");
    expect(stack.server.log).not.toContain("TimeoutOverflowWarning");
    expect(stack.server.faults).toEqual([]);
  });
});
