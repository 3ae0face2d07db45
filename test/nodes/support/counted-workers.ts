import { expect } from "vitest";
import type { Outcome, Worker } from "@trunkline/sdk";
import { EventLog } from "../../support/event-log.js";
import { lasting } from "../../support/until.js";
import type { Nodes } from "./nodes.js";

const WORKERS = 20;

/** Workers of the tool `work`, which takes as many milliseconds as it is told and returns its idempotency key. */
export interface CountedWorkers {
  /** The idempotency key of every handler that was started. */
  readonly starts: EventLog<string>;
  readonly errors: readonly unknown[];
  stop(): Promise<void>;
}

/** Starts them, each with a connection of its own. */
export function startCountedWorkers(nodes: Nodes, url: string, concurrency: number): CountedWorkers {
  const starts = new EventLog<string>();
  const errors: unknown[] = [];
  const workers = Array.from({ length: WORKERS }, (_, index): Worker =>
    nodes.client(url).worker({
      name: `worker ${index}`,
      concurrency,
      onError: (error) => errors.push(error),
      tools: {
        work: async (ms: number, { idempotencyKey }) => {
          starts.add(idempotencyKey);
          await lasting(ms);
          return idempotencyKey;
        },
      },
    }),
  );
  return {
    starts,
    errors,
    stop: async () => {
      await Promise.all(workers.map((worker) => worker.stop()));
    },
  };
}

/** Every call succeeded at its first attempt; nothing ran twice, and nothing that ran was forgotten. */
export async function expectEachRanOnce(
  nodes: Nodes,
  { starts, errors }: CountedWorkers,
  outcomes: readonly Outcome[],
): Promise<void> {
  expect(errors).toEqual([]);
  expect(outcomes.filter(({ state, attempt }) => state !== "succeeded" || attempt !== 1)).toEqual([]);
  expect(outcomes.filter(({ callId, result }) => result !== callId)).toEqual([]);
  expect(starts.all).toHaveLength(new Set(starts.all).size);
  expect(new Set(starts.all)).toEqual(new Set(outcomes.map(({ callId }) => callId)));
  const { rows } = await nodes.database
    .pool()
    .query<{ count: number }>(
      "SELECT count(*)::int AS count FROM calls WHERE state <> 'succeeded' OR attempt <> 1 OR spent <> 1",
    );
  expect(rows).toEqual([{ count: 0 }]);
}
