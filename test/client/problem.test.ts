import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { FailureSchema, type FailureKind } from "@trunkline/proto/model";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";
import { describe, expect, test } from "vitest";
import { errorFromRpc, failureFromWire, isTransient } from "../../client/src/problem.js";

const URL = "http://127.0.0.1:1";

describe("errorFromRpc", () => {
  test("the problem in an error's details is what the user sees", () => {
    const detail = create(ProblemSchema, {
      code: 9,
      reason: Reason.RUN_ENDED,
      message: "run_id: the run has ended",
      metadata: { field: "run_id" },
      retryAfter: durationFromMs(1500),
    });
    const thrown = new ConnectError("outer", Code.FailedPrecondition, undefined, [
      { desc: ProblemSchema, value: detail },
    ]);
    expect(errorFromRpc(thrown, URL)).toMatchObject({
      name: "TrunklineError",
      reason: "RUN_ENDED",
      code: "FAILED_PRECONDITION",
      message: "run_id: the run has ended",
      metadata: { field: "run_id" },
      retryAfterMs: 1500,
    });
    expect(isTransient(thrown)).toBe(false);
  });

  test.each([
    [Code.Unauthenticated, "UNAUTHENTICATED", false],
    [Code.PermissionDenied, "PERMISSION_DENIED", false],
    [Code.Unavailable, "UNAVAILABLE", true],
    [Code.Internal, "UNAVAILABLE", true],
    [Code.DeadlineExceeded, "UNAVAILABLE", true],
    [Code.Unimplemented, "UNIMPLEMENTED", false],
    [Code.InvalidArgument, "INVALID_FIELD", false],
  ])("code %d without a problem has the reason %s", (code, reason, transient) => {
    const error = new ConnectError("x", code);
    expect(errorFromRpc(error, URL).reason).toBe(reason);
    expect(isTransient(error)).toBe(transient);
  });

  test("a request that cannot be written is not tried again", () => {
    const error = new ConnectError("serialize binary: invalid int32: 1.5", Code.Internal);
    expect(errorFromRpc(error, URL).reason).toBe("INVALID_FIELD");
    expect(isTransient(error)).toBe(false);
  });

  test.each([
    [
      "80CC:error:0A00010B:SSL routines:ssl3_get_record:wrong version number:x.c:350:\n",
      "does not speak TLS",
    ],
    ["Protocol error", "does not speak as a Trunkline server"],
    ["unsupported content type text/html", "does not speak as a Trunkline server"],
    ["self-signed certificate", "NODE_EXTRA_CA_CERTS"],
    ["http/2 stream closed with error code CANCEL (0x8)", "the connection was closed"],
  ])("what %j means is said in plain words, in one line", (raw, plain) => {
    const { message } = errorFromRpc(new ConnectError(raw, Code.Internal), URL);
    expect(message).toContain(`no answer from ${URL}: `);
    expect(message).toContain(plain);
    expect(message).not.toContain("\n");
  });

  test("a server that does not know the request is named", () => {
    const { message } = errorFromRpc(new ConnectError("HTTP 404", Code.Unimplemented), URL);
    expect(message).toBe(
      `${URL} does not know the request (HTTP 404); is it the address of a Trunkline server?`,
    );
  });

  test("a reason of a newer server reads as INTERNAL", () => {
    const unknown = JSON.parse("999") as Reason;
    const value = create(ProblemSchema, { code: 99, reason: unknown, message: "new" });
    const error = new ConnectError("x", Code.Unknown, undefined, [{ desc: ProblemSchema, value }]);
    expect(errorFromRpc(error, URL)).toMatchObject({ reason: "INTERNAL", code: undefined, message: "new" });
  });
});

test("a failure of an unknown kind reads as the tool's", () => {
  const kind = JSON.parse("99") as FailureKind;
  const failure = create(FailureSchema, { kind, message: "m", dataJson: '{"id":9007199254740993}' });
  expect(failureFromWire(failure)).toMatchObject({ kind: "tool", dataJson: '{"id":9007199254740993}' });
});
