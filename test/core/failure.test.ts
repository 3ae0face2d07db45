import { describe, expect, test } from "vitest";
import { FAILURE_KINDS, sameFailure, serverFailure, type Failure } from "../../server/src/core/failure.js";

const UNKNOWABLE = ["worker_lost", "attempt_timeout", "total_timeout", "canceled"];

describe("serverFailure", () => {
  test.each(FAILURE_KINDS)("says of %s whether its outcome is unknown", (kind) => {
    expect(serverFailure(kind, "m", 0, false).outcomeUnknown).toBe(false);
    expect(serverFailure(kind, "m", 1, false).outcomeUnknown).toBe(UNKNOWABLE.includes(kind));
  });

  test("keeps its message, has no data, and is retryable as told", () => {
    expect(serverFailure("worker_lost", "worker w1 stopped answering", 2, true)).toEqual({
      kind: "worker_lost",
      message: "worker w1 stopped answering",
      dataJson: null,
      retryable: true,
      outcomeUnknown: true,
    });
  });
});

describe("sameFailure", () => {
  const one: Failure = {
    kind: "tool",
    message: "busy",
    dataJson: '{"a":1}',
    retryable: true,
    outcomeUnknown: false,
  };

  test("finds a failure that is sent again the same, whatever the server added", () => {
    expect(sameFailure(one, { ...one })).toBe(true);
    expect(sameFailure(one, { ...one, outcomeUnknown: true })).toBe(true);
  });

  test.each<Partial<Failure>>([
    { kind: "exception" },
    { message: "Busy" },
    { dataJson: '{"a": 1}' },
    { dataJson: null },
    { retryable: false },
  ])("tells a failure apart by %o", (other) => {
    expect(sameFailure(one, { ...one, ...other })).toBe(false);
    expect(sameFailure({ ...one, ...other }, one)).toBe(false);
  });
});
