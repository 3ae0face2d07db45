import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { Call, CallState } from "../../server/src/core/call.js";
import type { Scope } from "../../server/src/core/scope.js";
import { insertCalls } from "../../server/src/store/calls-insert.js";
import {
  countCalls,
  findCalls,
  listCalls,
  loadCalls,
  loadRecords,
  openCallsOfRun,
  readTurn,
  seeCalls,
  type CallFilter,
} from "../../server/src/store/calls-read.js";
import { createRuns, listRuns, type RunRecord } from "../../server/src/store/runs.js";
import { v7 as uuidv7 } from "uuid";
import {
  apply,
  makeRun,
  newName,
  newRow,
  openCall,
  PROJECT,
  SCOPE,
  useStore,
  type CallPatch,
} from "./fixture.js";

const store = useStore();

const MIB = 1024 * 1024;

const succeeds = (resultJson: string) =>
  ({ type: "settle", attempt: null, answer: { type: "result", resultJson } }) as const;

async function openSettled(
  run: RunRecord,
  seq: number,
  resultJson: string,
  patch: CallPatch = {},
): Promise<Call> {
  return apply(store.db, await openCall(store.db, run, seq, patch), succeeds(resultJson));
}

const ALL: CallFilter = {
  runId: null,
  states: [],
  tool: null,
  namespace: null,
  labels: {},
  turn: null,
  payloads: true,
  limit: 10,
  after: null,
};

async function listAll(scope: Scope, filter: CallFilter): Promise<string[]> {
  const seen: string[] = [];
  let after = filter.after;
  do {
    const page = await listCalls(store.db, scope, { ...filter, after });
    seen.push(...page.records.map(({ call }) => `${call.runId}/${call.seq}`));
    after = page.next;
  } while (after !== null);
  return seen;
}

describe("seeCalls", () => {
  test("calls come with their states, and of the results only small ones, however well they compress", async () => {
    const run = await makeRun(store.db);
    const results = ['"small"', JSON.stringify("x".repeat(8_190)), JSON.stringify("x".repeat(8_191))];
    const ended = await Promise.all(results.map((json, index) => openSettled(run, index + 1, json)));
    const open = await openCall(store.db, run, 4);
    const seen = await seeCalls(store.db, [...ended, { ...open, seq: 5 }, open]);
    expect(seen.map((one) => one?.cut)).toEqual([false, false, true, undefined, false]);
    expect(seen.slice(0, 2).map((one) => one?.call)).toEqual(ended.slice(0, 2));
    expect(seen[2]?.call).toEqual({ ...ended[2], resultJson: "" });
    expect(seen[4]).toEqual({ call: open, endedAt: null, cut: false });
    const records = await loadRecords(store.db, ended);
    expect(seen.slice(0, 3).map((one) => one?.endedAt)).toEqual(records.map((record) => record?.endedAt));
  });
});

describe("reading by id and by key", () => {
  test("gives each at its place, and null for what is missing or of another project (I7)", async () => {
    const run = await makeRun(store.db);
    const [one, two] = [
      await openCall(store.db, run, 1, { key: "a" }),
      await openCall(store.db, run, 2, { key: "b" }),
    ];
    const missing = { ...one, seq: 99 };
    const foreign = { ...one, projectId: PROJECT + 1 };
    expect(await loadCalls(store.db, [two, missing, one, foreign])).toEqual([two, null, one, null]);
    const keys = ["b", "none", "a", "B", "a "].map((key) => ({ runId: run.id, key }));
    const found = async (scope: Scope) =>
      (await findCalls(store.db, scope, keys)).map((ref) => ref?.seq ?? null);
    const nothing = keys.map(() => null);
    expect(await found(SCOPE)).toEqual([2, null, 1, null, null]);
    expect(await found({ ...SCOPE, namespace: run.namespace, runId: run.id })).toEqual(await found(SCOPE));
    expect(await found({ ...SCOPE, projectId: PROJECT + 1 })).toEqual(nothing);
    expect(await found({ ...SCOPE, namespace: `${run.namespace}s` })).toEqual(nothing);
    expect(await found({ ...SCOPE, runId: randomUUID() })).toEqual(nothing);
    expect(await loadCalls(store.db, [])).toEqual([]);
  });

  test("leaves payloads out where it is told to", async () => {
    const run = await makeRun(store.db);
    const ended = await openSettled(run, 1, '"big result"', { inputJson: '"big input"' });
    const [whole] = await loadRecords(store.db, [ended]);
    const [bare] = await loadRecords(store.db, [ended], { payloads: false });
    expect(whole).toMatchObject({ inputJson: '"big input"', call: { resultJson: '"big result"' } });
    expect(bare).toEqual({ ...whole, inputJson: "", call: { ...whole?.call, resultJson: "" } });
  });

  test("counts a run's calls, and gives its open ones in pages", async () => {
    const run = await makeRun(store.db);
    for (const seq of [1, 2, 3, 4]) await openCall(store.db, run, seq);
    await openSettled(run, 5, "1");
    expect(await countCalls(store.db, PROJECT, run.id)).toEqual({ open: 4, total: 5 });
    const page = await openCallsOfRun(store.db, PROJECT, run.id, 2);
    expect(page.map(({ seq }) => seq)).toEqual([1, 2]);
    expect((await openCallsOfRun(store.db, PROJECT, run.id, 9, 2)).map(({ seq }) => seq)).toEqual([3, 4]);
  });
});

describe("lists", () => {
  test("skip and repeat nothing, though all was stored in one instant (S10)", async () => {
    const ids = Array.from({ length: 7 }, () => uuidv7());
    const label = newName("label");
    const labels = { [label]: "x" };
    const specs = ids.map((id) => ({
      projectId: PROJECT,
      id,
      key: null,
      namespace: "alice",
      toolset: null,
      labels,
      ttlMs: null,
    }));
    const runs = (await createRuns(store.db, specs)).flatMap((outcome) =>
      "run" in outcome ? [outcome.run] : [],
    );
    await insertCalls(
      store.db,
      runs.flatMap((run) => [1, 2, 3].map((seq) => newRow(run, seq))),
    );
    const expected = [...ids]
      .sort()
      .reverse()
      .flatMap((id) => [3, 2, 1].map((seq) => `${id}/${seq}`));
    for (const limit of [1, 2, 5, 100]) {
      expect(await listAll(SCOPE, { ...ALL, labels, limit })).toEqual(expected);
    }
    const listed: string[] = [];
    let after: string | null = null;
    do {
      const page = await listRuns(store.db, SCOPE, { namespace: null, state: null, labels, limit: 3, after });
      listed.push(...page.runs.map(({ id }) => id));
      after = page.next;
    } while (after !== null);
    expect(listed).toEqual([...ids].sort().reverse());
  });

  test("are filtered by run, state, tool, turn and label, alone and together", async () => {
    const label = newName("label");
    const run = await makeRun(store.db, { labels: { [label]: "x", other: "y" } });
    await openCall(store.db, run, 1, { tool: "a", turn: 1 });
    await openCall(store.db, run, 2, { tool: "b", turn: 1 });
    await openSettled(run, 3, "1", { tool: "a", turn: 2 });
    const seqs = async (filter: Partial<CallFilter>): Promise<number[]> =>
      (await listAll(SCOPE, { ...ALL, runId: run.id, ...filter })).map((id) => Number(id.split("/")[1]));
    expect(await seqs({})).toEqual([3, 2, 1]);
    expect(await seqs({ tool: "a" })).toEqual([3, 1]);
    expect(await seqs({ turn: 1 })).toEqual([2, 1]);
    const states: readonly CallState[] = ["succeeded", "failed"];
    expect(await seqs({ states })).toEqual([3]);
    expect(await seqs({ states: ["queued"], tool: "a", turn: 1, labels: { [label]: "x" } })).toEqual([1]);
    expect(await seqs({ labels: { [label]: "z" } })).toEqual([]);
    expect(await listAll(SCOPE, { ...ALL, labels: { [label]: "x" } })).toHaveLength(3);
  });

  test("have an end user's deferred calls, of all runs and of one, in pages and filtered, as any other calls", async () => {
    const [alice, bob] = [newName("alice"), newName("bob")];
    const runs = [
      await makeRun(store.db, { namespace: alice }),
      await makeRun(store.db, { namespace: alice }),
    ];
    const other = await makeRun(store.db, { namespace: bob });
    for (const run of [...runs, other]) {
      for (const seq of [1, 2, 3])
        await openCall(store.db, run, seq, { executor: "client", tool: `t${String(seq)}` });
      await openCall(store.db, run, 4);
      await apply(store.db, await openCall(store.db, run, 5, { executor: "client" }), succeeds("1"));
    }
    const scope: Scope = { projectId: PROJECT, namespace: alice };
    const ids = runs.map(({ id }) => id).sort();
    const expected = ids.reverse().flatMap((id) => [3, 2, 1].map((seq) => `${id}/${String(seq)}`));
    for (const payloads of [true, false]) {
      const deferred: CallFilter = { ...ALL, states: ["deferred"], payloads };
      for (const limit of [1, 2, 10]) {
        expect(await listAll(scope, { ...deferred, limit })).toEqual(expected);
        const ofRun = { ...deferred, limit, runId: ids[1]! };
        expect(await listAll(scope, ofRun)).toEqual(expected.slice(3));
        expect(await listAll({ ...scope, runId: ids[1]! }, { ...deferred, limit })).toEqual(
          expected.slice(3),
        );
      }
      expect(await listAll(scope, { ...deferred, tool: "t2" })).toEqual([expected[1], expected[4]]);
      expect(await listAll(scope, { ...deferred, runId: other.id })).toEqual([]);
      expect(await listAll(SCOPE, { ...deferred, namespace: alice })).toEqual(expected);
    }
  });

  test("show an end user's credential its own namespace, whatever the filter asks for (I7)", async () => {
    const [alice, bob] = [newName("alice"), newName("bob")];
    const runs = [await makeRun(store.db, { namespace: alice }), await makeRun(store.db, { namespace: bob })];
    for (const run of runs) await openCall(store.db, run, 1);
    const scope: Scope = { projectId: PROJECT, namespace: alice };
    const own = [`${runs[0]?.id ?? ""}/1`];
    expect(await listAll(scope, ALL)).toEqual(own);
    expect(await listAll(scope, { ...ALL, namespace: bob })).toEqual([]);
    expect(await listAll(scope, { ...ALL, runId: runs[1]?.id ?? "" })).toEqual([]);
    expect(await listAll(SCOPE, { ...ALL, namespace: alice })).toEqual(own);
    expect(await listAll({ projectId: PROJECT + 1, namespace: null }, ALL)).toEqual([]);
    const filter = { state: null, labels: {}, limit: 10, after: null };
    expect(
      (await listRuns(store.db, scope, { ...filter, namespace: null })).runs.map(({ id }) => id),
    ).toEqual([runs[0]?.id]);
    expect((await listRuns(store.db, scope, { ...filter, namespace: bob })).runs).toEqual([]);
  });
});

describe("readTurn", () => {
  test("tells open calls and outcomes of one instant, in the order of their numbers (I8)", async () => {
    const run = await makeRun(store.db);
    await openSettled(run, 1, "1", { turn: 4 });
    await openCall(store.db, run, 2, { turn: 4 });
    await openSettled(run, 3, "3", { turn: 4 });
    await openSettled(run, 4, "4", { turn: 5 });
    const page = await readTurn(store.db, SCOPE, run.id, 4, 0, MIB);
    expect(page).toMatchObject({ total: 3, more: false });
    expect(page.open.map(({ call }) => call.seq)).toEqual([2]);
    expect(page.outcomes.map(({ call }) => [call.seq, "resultJson" in call && call.resultJson])).toEqual([
      [1, "1"],
      [3, "3"],
    ]);
  });

  test("goes on after a number, and still says what is open before it", async () => {
    const run = await makeRun(store.db);
    await openCall(store.db, run, 1, { turn: 1 });
    await openSettled(run, 2, "2", { turn: 1 });
    const page = await readTurn(store.db, SCOPE, run.id, 1, 2, MIB);
    expect(page).toMatchObject({ total: 2, outcomes: [], more: false });
    expect(page.open.map(({ call }) => call.seq)).toEqual([1]);
  });

  test("cuts pages by size, each with at least one outcome, and gives each outcome once", async () => {
    const run = await makeRun(store.db);
    for (let seq = 1; seq <= 6; seq++)
      await openSettled(run, seq, JSON.stringify("x".repeat(1_000)), { turn: 1 });
    const seen: number[][] = [];
    let afterSeq = 0;
    for (let more = true; more;) {
      const page = await readTurn(store.db, SCOPE, run.id, 1, afterSeq, 2_500);
      seen.push(page.outcomes.map(({ call }) => call.seq));
      afterSeq = page.outcomes.at(-1)?.call.seq ?? 0;
      more = page.more;
    }
    expect(seen).toEqual([
      [1, 2],
      [3, 4],
      [5, 6],
    ]);
    const tiny = await readTurn(store.db, SCOPE, run.id, 1, 2, 1);
    expect(tiny.outcomes.map(({ call }) => call.seq)).toEqual([3]);
    expect(tiny.more).toBe(true);
  });

  test("counts the names of calls in the size of a page, not their results alone", async () => {
    const run = await makeRun(store.db);
    for (let seq = 1; seq <= 6; seq++) {
      await openSettled(run, seq, "1", { turn: 1, key: `${seq}`.padEnd(256, "k"), tool: "t".repeat(128) });
    }
    const page = await readTurn(store.db, SCOPE, run.id, 1, 0, 1_800);
    expect(page.outcomes.map(({ call }) => call.seq)).toEqual([1, 2, 3]);
    expect(page.more).toBe(true);
  });

  test("of a turn without calls, or of somebody else's run, is empty (I7)", async () => {
    const run = await makeRun(store.db);
    await openSettled(run, 1, "1", { turn: 1 });
    const nothing = { total: 0, open: [], outcomes: [], more: false };
    expect(await readTurn(store.db, SCOPE, run.id, 2, 0, MIB)).toEqual(nothing);
    expect(await readTurn(store.db, { projectId: PROJECT, namespace: "bob" }, run.id, 1, 0, MIB)).toEqual(
      nothing,
    );
    expect(await readTurn(store.db, { projectId: 2, namespace: null }, run.id, 1, 0, MIB)).toEqual(nothing);
  });
});
