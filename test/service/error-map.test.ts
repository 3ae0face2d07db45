import { Code, ConnectError } from "@connectrpc/connect";
import { ProblemSchema, Reason as WireReason, type Problem } from "@trunkline/proto/problem";
import { describe, expect, test } from "vitest";
import { REASONS, TrunklineError } from "../../server/src/core/error.js";
import { isFault, toConnectError, toProblem } from "../../server/src/service/error-map.js";

/** The problem in an error's details, read as a client reads it. */
function problemIn(error: ConnectError): Problem | undefined {
  return error.details.flatMap((detail) =>
    "value" in detail && isProblem(detail.value) ? [detail.value] : [],
  )[0];
}

function isProblem(value: unknown): value is Problem {
  return (
    typeof value === "object" &&
    value !== null &&
    "$typeName" in value &&
    value.$typeName === ProblemSchema.typeName
  );
}

describe("error map", () => {
  test.each(REASONS)("%s has its own number on the wire, and a code", (reason) => {
    const problem = toProblem(new TrunklineError(reason, "no"));
    expect(WireReason[problem.reason]).toBe(reason);
    expect(Code[problem.code]).toBeDefined();
    expect(problem.code).not.toBe(Code.Unknown);
  });

  test("every reason on the wire is one that the server gives", () => {
    const wire = Object.values(WireReason).filter((value) => typeof value === "string");
    expect(new Set(wire)).toEqual(new Set([...REASONS, "UNSPECIFIED"]));
  });

  test("an RPC's error carries the problem, with metadata and the delay before another try", () => {
    const error = toConnectError(
      new TrunklineError("OVERLOADED", "too much", { metadata: { limit: "opens" }, retryAfterMs: 1_500 }),
    );
    expect(error.code).toBe(Code.ResourceExhausted);
    expect(error.rawMessage).toBe("too much");
    expect(problemIn(error)).toMatchObject({
      reason: WireReason.OVERLOADED,
      metadata: { limit: "opens" },
      retryAfter: { seconds: 1n, nanos: 500_000_000 },
    });
  });

  test("a bogus token is NOT_FOUND, which clients do not try again (S16)", () => {
    expect(toConnectError(new TrunklineError("TOKEN_INVALID", "no")).code).toBe(Code.NotFound);
  });

  test("a fault of the server says nothing of itself to the caller", () => {
    const fault = new Error("password authentication failed for user admin");
    const error = toConnectError(fault);
    expect(error.code).toBe(Code.Internal);
    expect(JSON.stringify(problemIn(error))).not.toContain("admin");
    expect(error.message).not.toContain("admin");
    expect(isFault(fault)).toBe(true);
  });

  test("a lost database is UNAVAILABLE and worth another try, and no fault", () => {
    const lost = Object.assign(new Error("reset"), { code: "ECONNRESET" });
    expect(toProblem(lost)).toMatchObject({ code: Code.Unavailable, reason: WireReason.UNAVAILABLE });
    expect(toProblem(lost).retryAfter).toBeDefined();
    expect(isFault(lost)).toBe(false);
  });

  test("a database that is out of disk is UNAVAILABLE for callers, and said in the log", () => {
    const full = Object.assign(new Error("could not extend file: No space left on device"), {
      code: "53100",
    });
    const refused = new TrunklineError("UNAVAILABLE", "try again", { cause: full });
    for (const error of [full, refused]) {
      expect(toProblem(error)).toMatchObject({ code: Code.Unavailable, reason: WireReason.UNAVAILABLE });
      expect(isFault(error)).toBe(true);
    }
  });

  test("a message that the transport refused for its size gets the reason that clients switch on", () => {
    const error = toConnectError(new ConnectError("message size 5 is larger than 4", Code.ResourceExhausted));
    expect(error.code).toBe(Code.ResourceExhausted);
    expect(problemIn(error)?.reason).toBe(WireReason.FRAME_TOO_LARGE);
  });

  test("a client that went away is no fault", () => {
    const aborted = new DOMException("gone", "AbortError");
    expect(isFault(aborted)).toBe(false);
    expect(toConnectError(aborted).code).toBe(Code.Canceled);
  });

  test("a long message is cut at 1 KiB between two characters", () => {
    const { message } = toProblem(new TrunklineError("INVALID_FIELD", "😀".repeat(1_000)));
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1_024);
    expect(message.isWellFormed()).toBe(true);
    expect(message).toMatch(/^(😀)+…$/u);
  });
});
