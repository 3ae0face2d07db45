import { expect, test } from "vitest";
import { orderedKeys } from "../../client/src/ordered-keys.js";

test("keys that are made one after the other are in order, and no two makers make the same", () => {
  const [newKey, otherKey] = [orderedKeys("a"), orderedKeys("a")];
  const keys = Array.from({ length: 40 }, newKey);
  expect([...keys].sort()).toEqual(keys);
  expect(new Set([...keys, ...Array.from({ length: 40 }, otherKey)]).size).toBe(80);
  expect(keys[0]).toMatch(/^a-[\w-]{22}-0{8}$/);
});
