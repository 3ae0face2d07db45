import { describe, expect, test } from "vitest";
import { TrunklineError } from "../../server/src/core/error.js";
import { loggedError, loggedText } from "../../server/src/core/logged-error.js";

/** What an attempt throws. */
function thrown(attempt: () => unknown): unknown {
  try {
    attempt();
  } catch (error) {
    return error;
  }
  return expect.fail("nothing was thrown");
}

const fromDatabase = (code: string, message: string): Error =>
  Object.assign(new Error(message), {
    ...{ code, severity: "ERROR", table: "calls", constraint: "calls_state", routine: "ExecConstraints" },
    ...{
      detail: "Failing row contains (hush).",
      where: "JSON data, line 1: hush",
      hint: "hush",
      internalQuery: "hush",
    },
  });

describe("the log", () => {
  test.each([
    ["a row that PostgreSQL shows", fromDatabase("23514", 'violates check constraint "calls_state"')],
    [
      "a value that PostgreSQL quotes",
      fromDatabase("22P02", 'invalid input syntax for type uuid: "hush "and" hush"'),
    ],
    ["a text that is no JSON", thrown(() => JSON.parse('hush "and" hush'))],
    ["a header that cannot be sent", thrown(() => new Headers({ authorization: "Bearer hush\nhush" }))],
    ["a URL that cannot be read", thrown(() => new URL("postgres://user:hush#x@host/db"))],
    ["a message of many lines", new TypeError('of "hush\n    at hush\nhush"')],
    [
      "what hangs on an error",
      Object.assign(new Error("refused"), { request: { headers: { key: "hush" } } }),
    ],
    ["what is no error", "hush"],
    [
      "what caused one of ours",
      new TrunklineError("INTERNAL", "it failed", { cause: fromDatabase("22001", '"hush"') }),
    ],
    ["one of several", new AggregateError([fromDatabase("22001", '"hush"')], 'all failed with "hush"')],
  ])("has no payload of %s (S14)", (_, error) => {
    expect(JSON.stringify(loggedError(error))).not.toContain("hush");
    expect(loggedText(error)).not.toContain("hush");
  });

  test("has what tells where a fault lies", () => {
    const cause = fromDatabase(
      "23514",
      'new row for relation "calls" violates check constraint "calls_state"',
    );
    const logged = loggedError(new TrunklineError("INTERNAL", "it failed", { cause }));
    expect(logged).toMatchObject({
      ...{ type: "TrunklineError", message: "it failed", reason: "INTERNAL" },
      cause: { code: "23514", table: "calls", constraint: "calls_state", message: cause.message },
    });
    expect(logged.stack).toMatch(/^TrunklineError: it failed\n {4}at .*logged-error\.test\.ts/);
    expect(loggedText(new Error("outer", { cause }))).toMatch(
      /^Error: outer\n.*\ncaused by: Error: new row/s,
    );
  });

  test("does not follow causes for ever", () => {
    const error = new Error("round");
    error.cause = error;
    expect(JSON.stringify(loggedError(error)).match(/"message":"round"/g)).toHaveLength(6);
    expect(loggedText(error).match(/Error: round/g)).toHaveLength(6);
  });
});
