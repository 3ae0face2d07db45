import { expect, test } from "vitest";
import type { Outcome } from "@trunkline/sdk";
import { until } from "../support/until.js";
import { expectEachRanOnce, startCountedWorkers } from "./support/counted-workers.js";
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
  const workers = startCountedWorkers(nodes, balancer.url, 8);
  const harness = nodes.client(balancer.url);
  const run = await harness.runs.create();
  const outcomes: Outcome[] = [];
  let goOn = true;
  const drive = async (index: number): Promise<void> => {
    while (goOn) {
      // Long enough that there is always something under way; half of them must not be run twice.
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
  await workers.stop();
  await expectEachRanOnce(nodes, workers, outcomes);
  expect([...one.faults, ...two.faults]).toEqual([]);
});
