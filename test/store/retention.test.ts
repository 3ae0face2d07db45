import { expect, test } from "vitest";
import type { Call } from "../../server/src/core/call.js";
import { countCalls, openCallsOfRun } from "../../server/src/store/calls-read.js";
import { deleteEndedRuns, deleteOldSessions } from "../../server/src/store/retention.js";
import { endRun, finishRun, loadRuns, type RunRecord } from "../../server/src/store/runs.js";
import { apply, makeRun, makeSession, openCall, PROJECT, useStore } from "./fixture.js";

const store = useStore();

const DAY_MS = 86_400_000;

async function age(run: RunRecord, days: number): Promise<void> {
  await store.database
    .pool()
    .query("UPDATE runs SET ended_at = ended_at - $2 * interval '1 day' WHERE id = $1", [run.id, days]);
}

async function reloadFirst(run: RunRecord): Promise<Call> {
  const [call] = await openCallsOfRun(store.db, PROJECT, run.id, 1);
  return call!;
}

test("runs that ended long ago go with their calls; younger, active and unfinished ones stay", async () => {
  const [old, young, active, unfinished] = await Promise.all([1, 2, 3, 4].map(() => makeRun(store.db)));
  for (const run of [old, young, active, unfinished]) await openCall(store.db, run!, 1);
  for (const run of [old, young, unfinished]) await endRun(store.db, PROJECT, run!.id);
  for (const run of [old, young]) {
    await apply(store.db, await reloadFirst(run!), { type: "cancel", cause: "run_ended" });
    await finishRun(store.db, PROJECT, run!.id);
  }
  await age(old!, 3);
  await age(unfinished!, 3);
  expect(await deleteEndedRuns(store.db, 2 * DAY_MS, 10)).toBe(1);
  expect(await deleteEndedRuns(store.db, 2 * DAY_MS, 10)).toBe(0);
  const left = await loadRuns(store.db, [old!, young!, active!, unfinished!]);
  expect(left.map((run) => run?.id ?? null)).toEqual([null, young!.id, active!.id, unfinished!.id]);
  expect(await countCalls(store.db, PROJECT, old!.id)).toEqual({ open: 0, total: 0 });
  expect(await countCalls(store.db, PROJECT, young!.id)).toEqual({ open: 0, total: 1 });
});

test("a session that was not heard of for long goes, unless it holds a claim (I6)", async () => {
  const [gone, holding, fresh] = [
    await makeSession(store.db),
    await makeSession(store.db),
    await makeSession(store.db),
  ];
  await openCall(store.db, await makeRun(store.db), 1, { session: holding });
  await store.database
    .pool()
    .query("UPDATE sessions SET last_heard_at = now() - interval '3 days' WHERE id = ANY ($1)", [
      [gone.number, holding.number],
    ]);
  expect(await deleteOldSessions(store.db, 2 * DAY_MS, 10)).toBe(1);
  const { rows } = await store.database.pool().query<{ id: string }>("SELECT id FROM sessions ORDER BY id");
  expect(rows.map(({ id }) => Number(id))).toEqual([holding.number, fresh.number]);
});
