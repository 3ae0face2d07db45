import { expect, test } from "vitest";
import { readSettlement } from "../../client/src/settlement.js";

/** What JavaScript passes where a type is asked for. */
const any = (value: unknown): never => value as never;

test.each([
  ["settlement: string is not an object; allowed is { type, … }", "done"],
  ["settlement: undefined is not an object; allowed is { type, … }", undefined],
  ["error: undefined; allowed is a message, or { message, data }", { type: "tool.error" }],
  ["error: number; allowed is a message, or { message, data }", { type: "tool.error", error: 5 }],
])("a settlement that is none is told what it is: %s", (message, given) => {
  expect(() => readSettlement(any(given))).toThrow(message);
});
