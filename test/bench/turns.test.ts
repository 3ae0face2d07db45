import { expect, test } from "vitest";
import { byTurns } from "../../bench/turns.mjs";

test("every subject has had its first turn before any has its second", async () => {
  const turns: string[] = [];
  const samples = await byTurns(2, ["a", "b", "c"], async (subject, run) => {
    turns.push(`${subject}${run}`);
    return run;
  });
  expect(turns).toEqual(["a0", "b0", "c0", "a1", "b1", "c1"]);
  expect([...samples]).toEqual(["a", "b", "c"].map((subject) => [subject, [0, 1]]));
});
