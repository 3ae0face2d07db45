import fc from "fast-check";
import { expect, test } from "vitest";
import { booleanArray, jsonArray, numberArray, textArray } from "../../server/src/store/array-parameter.js";
import { statement } from "../../server/src/store/statement.js";
import { useStore } from "./fixture.js";

const store = useStore();

const BACK = statement(
  "test_arrays_back",
  `SELECT to_json($1::text[]) AS texts, to_json($2::bigint[]) AS numbers, to_json($3::boolean[]) AS booleans,
    to_json($4::json[]) AS documents`,
);

/** Few different ones, so that whole columns are alike; those that an array's text has to quote among them. */
const text = fc.oneof(
  fc.constantFrom("same", "", "NULL", 'a "quote"', "back\\slash", "{a,b}", " blank ", "水", null),
  fc.string({ unit: "grapheme" }).map((each) => each.replaceAll("\0", "")),
);

test("PostgreSQL reads columns of any length and content as they were given", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(text),
      fc.array(fc.oneof(fc.constantFrom(0, 7, null), fc.maxSafeInteger())),
      fc.array(fc.boolean()),
      fc.array(fc.oneof(fc.constant("{}"), fc.constant(null), fc.json())),
      async (texts, numbers, booleans, documents) => {
        const values = [textArray(texts), numberArray(numbers), booleanArray(booleans), jsonArray(documents)];
        const [row] = await store.db.query<Record<string, string>>(BACK, values);
        const back = Object.entries(row!).map(([name, json]): [string, unknown] => [name, JSON.parse(json)]);
        expect(Object.fromEntries(back)).toEqual({
          texts,
          numbers,
          booleans,
          documents: documents.map((each): unknown => (each === null ? null : JSON.parse(each))),
        });
      },
    ),
    { numRuns: 200 },
  );
});
