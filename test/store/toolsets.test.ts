import { describe, expect, test } from "vitest";
import {
  deleteToolset,
  getToolset,
  listToolsets,
  loadToolset,
  putToolset,
  type Tool,
} from "../../server/src/store/toolsets.js";
import { newName, PROJECT, SCOPE, useStore } from "./fixture.js";

const store = useStore();

const tool = (patch: Partial<Tool> = {}): Tool => ({
  name: "echo",
  description: "says it again \0 😀",
  inputSchemaJson: '{ "type":"object", "n": 9007199254740993 }',
  outputSchemaJson: null,
  policy: { mode: "at_most_once", heartbeatTimeoutMs: 15_000 },
  executor: "worker",
  ...patch,
});

describe("putToolset", () => {
  test("counts a version up when the tools change, and only then", async () => {
    const id = newName("toolset");
    expect(await putToolset(store.db, SCOPE, id, [tool()])).toMatchObject({
      changed: true,
      toolset: { version: 1 },
    });
    const reordered = tool({ policy: { heartbeatTimeoutMs: 15_000, mode: "at_most_once" } });
    const same = await putToolset(store.db, SCOPE, id, [reordered]);
    expect(same).toMatchObject({ changed: false, toolset: { version: 1, tools: [tool()] } });
    const other = tool({ outputSchemaJson: "true" });
    expect(await putToolset(store.db, SCOPE, id, [other])).toMatchObject({
      changed: true,
      toolset: { version: 2 },
    });
    expect(await putToolset(store.db, SCOPE, id, [tool()])).toMatchObject({
      changed: true,
      toolset: { version: 3 },
    });
  });

  test("from two connections at once gives one version for the same tools, and two for different ones", async () => {
    for (let round = 0; round < 10; round++) {
      const id = newName("toolset");
      const same = await Promise.all(
        [store.db, store.other].map((db) => putToolset(db, SCOPE, id, [tool()])),
      );
      expect(same.map(({ toolset }) => toolset.version)).toEqual([1, 1]);
      expect(same.map(({ changed }) => changed).sort()).toEqual([false, true]);
      const different = await Promise.all(
        [store.db, store.other].map((db, index) =>
          putToolset(db, SCOPE, id, [tool({ description: `${index}` })]),
        ),
      );
      expect(different.map(({ toolset }) => toolset.version).sort()).toEqual([2, 3]);
    }
  });
});

describe("a toolset", () => {
  test("is read in its current version or in an older one, by its own project only (I7)", async () => {
    const id = newName("toolset");
    await putToolset(store.db, SCOPE, id, [tool()]);
    await putToolset(store.db, SCOPE, id, []);
    expect(await getToolset(store.db, SCOPE, id, null)).toMatchObject({ id, version: 2, tools: [] });
    expect(await getToolset(store.db, SCOPE, id, 1)).toMatchObject({ version: 1, tools: [tool()] });
    expect(await getToolset(store.db, SCOPE, id, 3)).toBeNull();
    expect(await getToolset(store.db, { projectId: PROJECT + 1, namespace: null }, id, null)).toBeNull();
  });

  test("that was deleted is gone but for the runs that pinned it, and comes back with its versions", async () => {
    const id = newName("toolset");
    await putToolset(store.db, SCOPE, id, [tool()]);
    expect(await deleteToolset(store.db, SCOPE, id)).toBe(true);
    expect(await deleteToolset(store.db, SCOPE, id)).toBe(false);
    expect(await getToolset(store.db, SCOPE, id, null)).toBeNull();
    expect(await loadToolset(store.db, PROJECT, id, 1)).toMatchObject({ tools: [tool()] });
    expect(await putToolset(store.db, SCOPE, id, [tool()])).toMatchObject({
      changed: true,
      toolset: { version: 1 },
    });
    expect(await getToolset(store.db, SCOPE, id, null)).toMatchObject({ version: 1 });
  });

  test("is listed by id, in pages, without deleted ones", async () => {
    const prefix = newName("zz");
    for (const name of ["b", "a", "c", "d"]) await putToolset(store.db, SCOPE, `${prefix}-${name}`, []);
    await deleteToolset(store.db, SCOPE, `${prefix}-c`);
    const first = await listToolsets(store.db, SCOPE, { limit: 2, after: prefix });
    expect(first.toolsets.map(({ id }) => id)).toEqual([`${prefix}-a`, `${prefix}-b`]);
    const second = await listToolsets(store.db, SCOPE, { limit: 2, after: first.next });
    expect(second.toolsets.map(({ id }) => id)).toEqual([`${prefix}-d`]);
    expect(second.next).toBeNull();
  });
});
