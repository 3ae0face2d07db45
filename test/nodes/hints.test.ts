import { describe, expect, test } from "vitest";
import type { Run } from "@trunkline/sdk";
import { until } from "../support/until.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();

/** What a poll that takes the place of a hint may take, and more. */
const POLLED_MS = 5_000;
/** Far below the half second between two polls. */
const HINTED_MS = 150;

/** Two nodes: calls are opened on one, and run on the other. */
async function twoNodes(flags: readonly string[] = []): Promise<Run> {
  const [opening, running] = await Promise.all([nodes.start({ flags }), nodes.start({ flags })]);
  nodes.client(running.url).worker({ name: "elsewhere", tools: { now: () => Date.now() } });
  return nodes.client(opening.url).runs.create();
}

interface Times {
  readonly untilStart: number;
  readonly untilOutcome: number;
}

/** How long a call took to its start, and from there to its caller, in milliseconds. */
async function timeCall(run: Run): Promise<Times> {
  const openedAt = Date.now();
  const startedAt = await run.call<number>("now");
  return { untilStart: startedAt - openedAt, untilOutcome: Date.now() - startedAt };
}

/** Resolves when a call goes there and back without a poll in between. */
async function hinted(run: Run): Promise<void> {
  await until("a call that goes there and back by hints", async () => {
    const { untilStart, untilOutcome } = await timeCall(run);
    return untilStart + untilOutcome < HINTED_MS;
  });
}

function listeners(): Promise<number[]> {
  return nodes.database
    .pool()
    .query<{ pid: number }>(
      "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'trunkline listener'",
    )
    .then(({ rows }) => rows.map(({ pid }) => pid));
}

const worst = (times: readonly Times[], part: keyof Times): number =>
  Math.max(...times.map((each) => each[part]));

const median = (numbers: readonly number[]): number =>
  [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? NaN;

describe("a call that is opened on one node and whose worker is on another", () => {
  test("starts and comes back at once by NOTIFY, not at the next poll", async () => {
    const run = await twoNodes();
    await hinted(run);
    const times: Times[] = [];
    for (let count = 0; count < 30; count++) times.push(await timeCall(run));
    expect(worst(times, "untilStart")).toBeLessThan(1_000);
    expect(worst(times, "untilOutcome")).toBeLessThan(1_000);
    expect(median(times.map(({ untilStart, untilOutcome }) => untilStart + untilOutcome))).toBeLessThan(
      HINTED_MS,
    );
  });

  test("is never slower than polling while listeners are terminated again and again, and fast afterwards (B25 b, d)", async () => {
    const run = await twoNodes();
    await hinted(run);
    const times: Times[] = [];
    for (let count = 0; count < 3; count++) {
      const pids = await until("both nodes listen", async () => {
        const found = await listeners();
        return found.length === 2 && found;
      });
      await nodes.database.pool().query("SELECT pg_terminate_backend(unnest($1::int[]))", [pids]);
      times.push(await timeCall(run));
    }
    expect(worst(times, "untilStart")).toBeLessThan(POLLED_MS);
    expect(worst(times, "untilOutcome")).toBeLessThan(POLLED_MS);
    await hinted(run);
  });

  test("is found by polling where nodes do not listen at all (--pooler)", async () => {
    const run = await twoNodes(["--pooler"]);
    const { untilStart, untilOutcome } = await timeCall(run);
    expect(untilStart).toBeLessThan(POLLED_MS);
    expect(untilOutcome).toBeLessThan(POLLED_MS);
    expect(await listeners()).toEqual([]);
  });
});
