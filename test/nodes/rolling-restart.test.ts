import { expect, test } from "vitest";
import type { Outcome } from "@trunkline/sdk";
import { EventLog } from "../support/event-log.js";
import { lasting, until } from "../support/until.js";
import { useNodes } from "./support/nodes.js";

const nodes = useNodes();

/** Calls that are under way at any time. */
const IN_FLIGHT = 100;

test("a rolling restart under load burns no attempt and loses no call and no answer (B13 c)", async () => {
  // What a worker has not accepted within three intervals is taken back: long enough for a machine that is busy.
  const heartbeatInterval = "1s";
  const [one, two] = await Promise.all([
    nodes.start({ heartbeatInterval }),
    nodes.start({ heartbeatInterval }),
  ]);
  const balancer = await nodes.balancer(one, two);
  const starts = new EventLog<string>();
  const errors: unknown[] = [];
  const workers = Array.from({ length: 20 }, (_, index) =>
    nodes.client(balancer.url).worker({
      name: `worker ${index}`,
      concurrency: 8,
      onError: (error) => errors.push(error),
      tools: {
        // Long enough that there is always something under way, short enough to be many.
        work: async (ms: number, { idempotencyKey }) => {
          starts.add(idempotencyKey);
          await lasting(ms);
          return idempotencyKey;
        },
      },
    }),
  );
  const harness = nodes.client(balancer.url);
  const run = await harness.runs.create();
  const outcomes: Outcome[] = [];
  let goOn = true;
  const drive = async (index: number): Promise<void> => {
    while (goOn) {
      // Half of them must not be run twice.
      const mode = index % 2 === 0 ? "retry" : "at_most_once";
      const call = await run.open("work", 200 + ((index * 7) % 300), { policy: { mode } });
      outcomes.push(await call.outcome());
    }
  };
  const driving = Promise.all(Array.from({ length: IN_FLIGHT }, (_, index) => drive(index)));
  await until("the calls flow", () => outcomes.length > 200);
  for (const node of [one, two]) {
    const before = outcomes.length;
    expect((await node.stop())?.status).toBe(0);
    await until("the calls flow without it", () => outcomes.length > before + 200);
    await node.start();
    await until("the calls flow with it", () => outcomes.length > before + 500);
  }
  goOn = false;
  await driving;
  await Promise.all(workers.map((worker) => worker.stop()));
  expect(errors).toEqual([]);
  expect(outcomes.filter(({ state, attempt }) => state !== "succeeded" || attempt !== 1)).toEqual([]);
  expect(outcomes.filter(({ callId, result }) => result !== callId)).toEqual([]);
  // Nothing ran twice, and nothing that ran was forgotten.
  expect(starts.all).toHaveLength(new Set(starts.all).size);
  expect(new Set(starts.all)).toEqual(new Set(outcomes.map(({ callId }) => callId)));
  const { rows } = await nodes.database
    .pool()
    .query<{ count: number }>(
      "SELECT count(*)::int AS count FROM calls WHERE state <> 'succeeded' OR spent <> 1",
    );
  expect(rows).toEqual([{ count: 0 }]);
  expect([...one.faults, ...two.faults]).toEqual([]);
});
