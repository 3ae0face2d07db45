import { expect, test } from "vitest";
import { parseToolsetFile } from "../../server/src/cli/toolset-file.js";

test("a toolset's file has tools by name, and may have an id", () => {
  const tools = { echo: { description: "says it again", executor: "client", policy: { maxAttempts: 2 } } };
  expect(parseToolsetFile(JSON.stringify({ id: "t", tools }), "t.json")).toEqual({ id: "t", tools });
  expect(parseToolsetFile(JSON.stringify({ tools: {} }), "t.json").id).toBeUndefined();
});

test.each([
  ["{", "t.json is not JSON"],
  ["[]", "t.json: is not a JSON object"],
  ['{"tools":[]}', '"tools" is not an object'],
  ['{"id":1,"tools":{}}', '"id" is not a string'],
  ['{"tool":{}}', 't.json: has a field "tool"'],
  ['{"tools":{"a":null}}', 'tool "a" is not an object'],
  ['{"tools":{"a":{}}}', 'tool "a" has no "description"'],
  ['{"tools":{"a":{"description":"","executor":"robot"}}}', 'tool "a" has an "executor" that does not exist'],
  ['{"tools":{"a":{"description":"","policy":"retry"}}}', 'tool "a" has a "policy" that is not an object'],
])("%s is refused with its place", (text, message) => {
  expect(() => parseToolsetFile(text, "t.json")).toThrow(message);
});
