import { describe, expect, test } from "vitest";
import type { Call } from "../../server/src/core/call.js";
import { insertCalls } from "../../server/src/store/calls-insert.js";
import { loadRecords } from "../../server/src/store/calls-read.js";
import { endCalls } from "../../server/src/store/calls-save.js";
import { decided, makeRun, makeSession, newRow, useStore } from "./fixture.js";

const store = useStore();

const TEXTS = [
  '{"quote": "\\"", "backslash": "\\\\", "n": 9007199254740993}',
  ' [1,\n\t"é 😀 \\ud800 \\u0000",\r\n null ] ',
  "null",
  '""',
  JSON.stringify('\\"{},NULL\n'.repeat(100_000)),
];

/** Stores calls with these inputs in one statement, ends them in another, the odd ones by a failure. */
async function storeAndEnd(texts: readonly string[]): Promise<Call[]> {
  const run = await makeRun(store.db);
  const session = await makeSession(store.db);
  const rows = texts.map((inputJson, index) => newRow(run, index + 1, { session, inputJson }));
  await insertCalls(store.db, rows);
  const items = rows.map(({ call }, index) => {
    if (call.state !== "claimed") throw new Error("the call is not claimed");
    const resultJson = texts[index] ?? "";
    const failure = {
      kind: "tool",
      message: "no",
      dataJson: resultJson,
      retryable: false,
      outcomeUnknown: false,
    } as const;
    return decided(call, {
      type: "answer",
      claimId: call.claim.id,
      answer: index % 2 === 0 ? { type: "result", resultJson } : { type: "failure", failure },
    });
  });
  const outcomes = await endCalls(store.db, items);
  expect(outcomes.map(({ type }) => type)).toEqual(items.map(() => "saved"));
  return items.map(({ change }) => change.next);
}

describe("payloads", () => {
  test.each(TEXTS.map((text, index) => [index, text] as const))(
    "of a call that is stored alone keep every character (text %i)",
    async (_, text) => {
      const [call] = await storeAndEnd([text]);
      const [record] = await loadRecords(store.db, call === undefined ? [] : [call]);
      expect(record?.inputJson).toBe(text);
      expect(record?.call).toEqual(call);
    },
  );

  test("of calls that are stored together keep every character, and their places", async () => {
    const texts = [...TEXTS, ...TEXTS.toReversed()];
    const calls = await storeAndEnd(texts);
    const records = await loadRecords(store.db, calls);
    expect(records.map((record) => record?.inputJson)).toEqual(texts);
    expect(records.map((record) => record?.call)).toEqual(calls);
  });
});
