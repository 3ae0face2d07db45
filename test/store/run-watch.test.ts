import { expect, test } from "vitest";
import { loadRecords } from "../../server/src/store/calls-read.js";
import { saveProgress } from "../../server/src/store/calls-save.js";
import { takeDue } from "../../server/src/store/due.js";
import { endRun, finishRun, type RunRecord } from "../../server/src/store/runs.js";
import {
  LAST_SEQ,
  loadSmallRecords,
  lookAtRuns,
  type ReadMark,
  type RunLook,
  type SeenRun,
} from "../../server/src/store/run-watch.js";
import { apply, makeRun, makeSession, newName, openCall, PROJECT, useStore } from "./fixture.js";

const store = useStore();

async function look(
  run: Pick<RunRecord, "id">,
  since: ReadMark | null,
  options: Partial<RunLook> & { readonly limit?: number } = {},
): Promise<SeenRun> {
  const { limit = null, ...rest } = options;
  const asked = { projectId: PROJECT, id: run.id, since, after: 0, ...rest };
  const [seen] = await lookAtRuns(store.db, [asked], limit);
  return seen ?? expect.fail("there is no such run");
}

const seqs = ({ calls }: SeenRun): number[] => calls.map(({ seq }) => seq);

test("what changed since a mark is found, whatever changed it, and what did not is not", async () => {
  const run = await makeRun(store.db);
  const session = await makeSession(store.db);
  let calls = [];
  for (let seq = 1; seq <= 5; seq++)
    calls.push(await openCall(store.db, run, seq, { session, claimId: newName("c") }));
  let seen = await look(run, null);
  expect(seen.calls).toEqual([1, 2, 3, 4, 5].map((seq) => ({ seq, version: 1, hasProgress: false })));
  expect(seqs(await look(run, seen.mark))).toEqual([]);
  const since = seen.mark;
  const [claimed, , reporting, ended] = calls;
  await apply(store.db, claimed!, { type: "take_back", claimId: claimed!.claim!.id, cause: "undelivered" });
  await saveProgress(store.db, [{ ref: reporting!, claimId: reporting!.claim!.id, progressJson: "1" }]);
  await apply(store.db, ended!, { type: "cancel", cause: "canceled" });
  seen = await look(run, since);
  expect(seen.calls).toEqual([
    { seq: 1, version: 2, hasProgress: false },
    { seq: 3, version: 1, hasProgress: true },
    { seq: 4, version: 2, hasProgress: false },
  ]);
  calls = [await openCall(store.db, run, 6)];
  expect(seqs(await look(run, seen.mark))).toEqual([6]);
  expect(seqs(await look(run, since, { limit: 2 }))).toEqual([1, 3]);
  expect(seqs(await look(run, since, { limit: 2, after: 3 }))).toEqual([4, 6]);
  expect(seqs(await look(run, null, { after: LAST_SEQ }))).toEqual([]);
});

test("what was begun before a mark and is committed after it is found, however long it took", async () => {
  const run = await makeRun(store.db);
  const [first, second] = [await openCall(store.db, run, 1), await openCall(store.db, run, 2)];
  const before = await look(run, null);
  let between: SeenRun | undefined;
  await store.other.transaction(async (tx) => {
    await apply(tx, first, { type: "cancel", cause: "canceled" });
    await apply(store.db, second, { type: "cancel", cause: "canceled" });
    between = await look(run, before.mark);
  });
  expect(seqs(between!)).toEqual([2]);
  const after = await look(run, between!.mark);
  expect(seqs(after)).toEqual([1]);
  expect(seqs(await look(run, after.mark))).toEqual([]);
});

test("a call that only came due is told with the version that it had", async () => {
  const run = await makeRun(store.db);
  const call = await openCall(store.db, run, 1);
  const { mark } = await look(run, null);
  await store.database
    .pool()
    .query("UPDATE calls SET total_timeout_at = now(), due_at = now() WHERE run_id = $1", [run.id]);
  await takeDue(store.db, 10);
  expect((await look(run, mark)).calls).toEqual([{ seq: 1, version: call.version, hasProgress: false }]);
});

test("a mark of another server brings all that ended near its time or later, and one of the future brings all", async () => {
  const run = await makeRun(store.db);
  for (const seq of [1, 2, 3]) await openCall(store.db, run, seq);
  await store.database
    .pool()
    .query("UPDATE calls SET opened_at = now() - interval '2 minutes' WHERE run_id = $1 AND seq < 3", [
      run.id,
    ]);
  const { mark } = await look(run, null);
  const restarted = { ...mark, startedAt: mark.startedAt - 1 };
  expect(seqs(await look(run, restarted))).toEqual([3]);
  expect(seqs(await look(run, { ...restarted, at: restarted.at - 3 * 60_000_000 }))).toEqual([1, 2, 3]);
  const [, xmax = ""] = mark.snapshot.split(":");
  const future = String(BigInt(xmax) + 1_000n);
  expect(seqs(await look(run, { ...mark, snapshot: `${future}:${future}:` }))).toEqual([1, 2, 3]);
  expect(seqs(await look(run, { ...mark, snapshot: "3:3:" }))).toEqual([1, 2, 3]);
});

test("several runs are seen as of one instant, and finished once no call can change any more", async () => {
  const [open, ended, done] = [await makeRun(store.db), await makeRun(store.db), await makeRun(store.db)];
  for (const run of [ended, done]) {
    const call = await openCall(store.db, run, 1);
    await endRun(store.db, PROJECT, run.id);
    if (run !== done) continue;
    await apply(store.db, call, { type: "cancel", cause: "run_ended" });
    await finishRun(store.db, PROJECT, run.id);
  }
  const looks = [open.id, newRunId(), ended.id, done.id].map((id) => ({
    ...{ projectId: PROJECT, id, since: null, after: 0 },
  }));
  const seen = await lookAtRuns(store.db, looks, null);
  expect(seen.map((each) => each && [each.ended, each.finished, seqs(each)])).toEqual([
    [false, false, []],
    null,
    [true, false, [1]],
    [true, true, [1]],
  ]);
  expect(new Set(seen.flatMap((each) => each?.mark.snapshot ?? [])).size).toBe(1);
  const foreign = await lookAtRuns(store.db, [{ ...looks[0]!, projectId: PROJECT + 1 }], null);
  expect(foreign).toEqual([null]);
});

test("small calls come whole, and large ones not at all, though they compress well", async () => {
  const run = await makeRun(store.db);
  const large = JSON.stringify("x".repeat(500_000));
  const refs = [
    await openCall(store.db, run, 1, { inputJson: '{"a": 1}' }),
    await openCall(store.db, run, 2, { inputJson: large }),
    await openCall(store.db, run, 3),
  ];
  const small = await loadSmallRecords(store.db, [...refs, { ...refs[0]!, seq: 9 }]);
  expect(small.map((record) => record?.inputJson ?? null)).toEqual(['{"a": 1}', null, "{}", null]);
  expect(small[0]).toEqual((await loadRecords(store.db, refs))[0]);
});

function newRunId(): string {
  return "01890000-0000-7000-8000-000000000000";
}
