import { describe, expect, test } from "vitest";
import {
  createRuns,
  dueRuns,
  endRun,
  finishRun,
  loadRuns,
  type RunRecord,
} from "../../server/src/store/runs.js";
import { deleteToolset, putToolset, type Tool } from "../../server/src/store/toolsets.js";
import { v7 as uuidv7 } from "uuid";
import { apply, makeRun, newName, openCall, PROJECT, SCOPE, useStore } from "./fixture.js";
import type { NewRun } from "../../server/src/store/runs.js";

const store = useStore();

const newSpec = (patch: Partial<NewRun> = {}): NewRun => ({
  projectId: PROJECT,
  id: uuidv7(),
  key: null,
  namespace: "alice",
  toolset: null,
  labels: {},
  ttlMs: null,
  ...patch,
});

const TOOL: Tool = {
  name: "echo",
  description: "",
  inputSchemaJson: "{}",
  outputSchemaJson: null,
  policy: {},
  executor: "worker",
};

async function expire(run: RunRecord): Promise<void> {
  await store.database
    .pool()
    .query(
      "UPDATE runs SET expires_at = now() - interval '1 s', due_at = now() - interval '1 s' WHERE id = $1",
      [run.id],
    );
}

/** The due runs, but only of those that the test made. */
async function due(db = store.db): Promise<Map<string, string>> {
  return new Map((await dueRuns(db, 100)).map(({ run, cause }) => [run.id, cause]));
}

describe("createRuns", () => {
  test("pins the toolset's version of that moment, and refuses one that is missing or deleted", async () => {
    const toolset = newName("toolset");
    await putToolset(store.db, SCOPE, toolset, [TOOL]);
    const first = await makeRun(store.db, { toolset });
    await putToolset(store.db, SCOPE, toolset, [{ ...TOOL, description: "new" }]);
    const second = await makeRun(store.db, { toolset });
    expect([first.toolsetVersion, second.toolsetVersion]).toEqual([1, 2]);
    await deleteToolset(store.db, SCOPE, toolset);
    const specs = [newSpec({ toolset }), newSpec(), newSpec({ toolset: "none" })];
    const outcomes = await createRuns(store.db, specs);
    expect(outcomes.map(({ type }) => type)).toEqual(["no_toolset", "created", "no_toolset"]);
  });

  test("a key that is created on two connections at once gives one run", async () => {
    for (let round = 0; round < 20; round++) {
      const key = newName("key");
      const outcomes = await Promise.all([
        createRuns(store.db, [newSpec({ key })]),
        createRuns(store.other, [newSpec({ key })]),
      ]);
      expect(
        outcomes
          .flat()
          .map(({ type }) => type)
          .sort(),
      ).toEqual(["created", "exists"]);
      const ids = outcomes.flat().map((outcome) => "run" in outcome && outcome.run.id);
      expect(ids[0]).toBe(ids[1]);
    }
  });

  test("a batch that is sent again finds its own runs", async () => {
    const specs = [
      newSpec(),
      newSpec({ key: newName("key"), labels: { a: "b", __proto__: "c" }, ttlMs: 60_000 }),
    ];
    const first = await createRuns(store.db, specs);
    const again = await createRuns(store.db, specs);
    expect(again).toEqual(first.map((outcome) => ({ ...outcome, type: "exists" })));
  });

  test("a label that is called __proto__ is a label like any other (S15)", async () => {
    const labels = JSON.parse('{"__proto__":"x"}') as Record<string, string>;
    const run = await makeRun(store.db, { labels });
    expect(Object.keys(run.labels)).toEqual(["__proto__"]);
  });

  test("a TTL is counted from the database's now, to the millisecond, also above 2^31 ms (B07)", async () => {
    const ttlMs = 60 * 86_400_000;
    const run = await makeRun(store.db, { ttlMs });
    expect((run.expiresAt ?? 0) - run.createdAt).toBe(ttlMs * 1_000);
    expect(run.ttlMs).toBe(ttlMs);
  });
});

describe("loadRuns", () => {
  test("gives each at its place with the next free number, and null for what is missing or foreign (I7)", async () => {
    const run = await makeRun(store.db);
    await openCall(store.db, run, 7);
    const refs = [{ projectId: PROJECT, id: uuidv7() }, run, { ...run, projectId: PROJECT + 1 }];
    expect(await loadRuns(store.db, refs)).toEqual([null, { ...run, nextSeq: 8 }, null]);
  });
});

describe("a run's end", () => {
  test("is told once, keeps its first time, and null is for a run that is not there", async () => {
    const run = await makeRun(store.db);
    const first = await endRun(store.db, PROJECT, run.id);
    expect(first).toMatchObject({ state: "ended" });
    expect(await endRun(store.db, PROJECT, run.id)).toEqual(first);
    expect(await endRun(store.db, PROJECT + 1, run.id)).toBeNull();
    expect(await endRun(store.db, PROJECT, uuidv7())).toBeNull();
  });

  test("stays due for any node, one at a time, until no call of it is open (I6)", async () => {
    const run = await makeRun(store.db);
    const call = await openCall(store.db, run, 1);
    await endRun(store.db, PROJECT, run.id);
    expect((await due()).get(run.id)).toBe("run_ended");
    expect((await due(store.other)).has(run.id)).toBe(false);
    expect(await finishRun(store.db, PROJECT, run.id)).toBe(false);
    await store.database.pool().query("UPDATE runs SET due_at = now() WHERE id = $1", [run.id]);
    expect((await due(store.other)).get(run.id)).toBe("run_ended");
    await apply(store.db, call, { type: "cancel", cause: "run_ended" });
    expect(await finishRun(store.db, PROJECT, run.id)).toBe(true);
    await endRun(store.db, PROJECT, run.id);
    const { rows } = await store.database.pool().query("SELECT due_at FROM runs WHERE id = $1", [run.id]);
    expect(rows).toEqual([{ due_at: null }]);
  });

  test("is one node's while another looks, which does not wait for it", async () => {
    const run = await makeRun(store.db);
    await openCall(store.db, run, 1);
    await endRun(store.db, PROJECT, run.id);
    await store.other.transaction(async (tx) => {
      expect((await due(tx)).has(run.id)).toBe(true);
      expect((await due()).has(run.id)).toBe(false);
    });
  });

  test("comes by itself when its TTL passes, also the second time that a node looks, and never before", async () => {
    const [soon, later] = [
      await makeRun(store.db, { ttlMs: 50_000 }),
      await makeRun(store.db, { ttlMs: 50_000 }),
    ];
    await openCall(store.db, soon, 1);
    await expire(soon);
    const causes = await due();
    expect(causes.get(soon.id)).toBe("run_expired");
    expect(causes.has(later.id)).toBe(false);
    expect(await finishRun(store.db, PROJECT, later.id)).toBe(false);
    await store.database.pool().query("UPDATE runs SET due_at = now() WHERE id = $1", [soon.id]);
    expect((await due()).get(soon.id)).toBe("run_expired");
    const [record] = await loadRuns(store.db, [soon]);
    expect(record?.state).toBe("ended");
  });
});
