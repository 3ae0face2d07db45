import { expect, test } from "vitest";
import type { Scope } from "../../server/src/core/scope.js";
import { claimQueued } from "../../server/src/store/calls-claim.js";
import { insertCalls } from "../../server/src/store/calls-insert.js";
import { hearSessions, helloSessions } from "../../server/src/store/sessions.js";
import { putToolset } from "../../server/src/store/toolsets.js";
import {
  makeRun,
  makeSession,
  newHello,
  newName,
  newRow,
  openCall,
  PROJECT,
  SCOPE,
  useStore,
} from "./fixture.js";

const store = useStore();

test("a session's id is its own within what its credential is bound to, and so are its claims (I7)", async () => {
  const run = await makeRun(store.db);
  const bound: Scope[] = [
    SCOPE,
    { ...SCOPE, namespace: "alice" },
    { ...SCOPE, namespace: "bob" },
    { ...SCOPE, namespace: "alice", runId: run.id },
    { ...SCOPE, namespace: "alice", runId: (await makeRun(store.db)).id },
  ];
  const same = newHello();
  const hellos = bound.map((scope) => ({ ...same, scope }));
  const first = await helloSessions(store.db, hellos);
  const numbers = first.map((outcome) => (outcome.type === "ok" ? outcome.number : 0));
  expect(new Set(numbers).size).toBe(bound.length);
  const call = await openCall(store.db, run, 1, { session: { number: numbers[3] ?? 0, epoch: 1 } });
  const again = await helloSessions(store.db, hellos);
  expect(again).toEqual(
    numbers.map((number, index) => ({
      ...{ type: "ok", number, epoch: 2, takenOver: false },
      claims: index === 3 ? [call] : [],
    })),
  );
  expect(await hearSessions(store.db, hellos)).toEqual(
    bound.map((_, index) => ({ type: "ok", claims: index === 3 ? [call] : [] })),
  );
  const [stranger] = await hearSessions(store.db, [
    { ...same, scope: { ...SCOPE, namespace: "bob", runId: run.id } },
  ]);
  expect(stranger).toEqual({ type: "unknown" });
});

test("a claim for a run takes that run's calls of the session's tools, the best first, and says when there is more", async () => {
  const toolset = newName("toolset");
  await putToolset(store.db, SCOPE, toolset, []);
  const [run, sibling] = [await makeRun(store.db, { toolset }), await makeRun(store.db, { toolset })];
  const [one, two, unserved] = [newName("tool"), newName("tool"), newName("tool")];
  await insertCalls(store.db, [
    newRow(sibling, 1, { tool: one, priority: 9 }),
    newRow(run, 1, { tool: one }),
    newRow(run, 2, { tool: unserved, priority: 9 }),
    newRow(run, 3, { tool: two, priority: 5 }),
    newRow(run, 4, { tool: one }),
    newRow(run, 5, { tool: two }),
  ]);
  const session = await makeSession(store.db);
  const claim = async (count: number, patch: Partial<Parameters<typeof claimQueued>[1]> = {}) => {
    const { claimed, more } = await claimQueued(store.db, {
      ...{
        projectId: PROJECT,
        namespace: "alice",
        runId: run.id,
        toolset: null,
        tools: [one, two],
        servedLast: "",
      },
      slots: Array.from({ length: count }, () => ({
        claimId: newName("claim"),
        session: session.number,
        epoch: session.epoch,
        worker: "worker-1",
      })),
      ...patch,
    });
    return { calls: claimed.map(({ record: { call } }) => [call.runId, call.seq]), more };
  };
  for (const patch of [
    { namespace: "bob" },
    { projectId: PROJECT + 1 },
    { toolset: "other" },
    { tools: ["no"] },
  ]) {
    expect(await claim(9, patch)).toEqual({ calls: [], more: false });
  }
  expect(await claim(2)).toEqual({ calls: [3, 1].map((seq) => [run.id, seq]), more: true });
  expect(await claim(2, { namespace: null, toolset })).toEqual({
    calls: [4, 5].map((seq) => [run.id, seq]),
    more: true,
  });
  expect(await claim(2)).toEqual({ calls: [], more: false });
});
