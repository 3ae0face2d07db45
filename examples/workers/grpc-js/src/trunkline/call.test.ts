import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { FailureKind } from "@trunkline/proto/model";
import { ClaimSchema } from "@trunkline/proto/worker";
import { answerOf, ToolError, typed, type Call, type Handler } from "./call.js";

/** How a handler's answer ends, with a limit of 20 bytes for the result. */
async function outcome(handler: Handler, inputJson = "null"): Promise<unknown> {
  const claim = create(ClaimSchema, { claimId: "c1", callId: "run/1", inputJson });
  const call: Call = {
    claim,
    callId: "run/1",
    attempt: 1,
    inputJson,
    signal: new AbortController().signal,
    newToken: () => "",
    defer: async () => {},
  };
  const { value } = (await answerOf(handler, call, 20)).outcome;
  if (typeof value !== "object") return value;
  const { kind, message, dataJson, retryable } = value;
  return { kind, message, dataJson, retryable };
}

const plain = { dataJson: "", retryable: false };

test("JSON text passes through digit for digit", async () => {
  assert.equal(await outcome(({ inputJson }) => inputJson, "1e400"), "1e400");
});

test("a typed handler that returns nothing answers with null", async () => {
  assert.equal(await outcome(typed(() => undefined)), "null");
});

test("a ToolError reaches the caller as it says, and any other error as an exception", async () => {
  const refuse = typed(() => {
    throw new ToolError("no", { data: [1], retryable: true });
  });
  assert.deepEqual(await outcome(refuse), {
    kind: FailureKind.TOOL,
    message: "no",
    dataJson: "[1]",
    retryable: true,
  });
  const crash = typed(() => {
    throw new TypeError("oops");
  });
  assert.deepEqual(await outcome(crash), { kind: FailureKind.EXCEPTION, message: "oops", ...plain });
});

test("a failure's data has its own limit of 64 KiB, and what is too large does not take the message along", async () => {
  const fail = (letters: number) =>
    typed(() => {
      throw new ToolError("no", { data: "x".repeat(letters), retryable: true });
    });
  const whole = {
    kind: FailureKind.TOOL,
    message: "no",
    dataJson: `"${"x".repeat(65_534)}"`,
    retryable: true,
  };
  assert.deepEqual(await outcome(fail(65_534)), whole);
  assert.deepEqual(await outcome(fail(65_535)), {
    kind: FailureKind.OVERSIZED,
    message: "the failure's data has 65537 bytes; allowed are 65536 (of the failure: no)",
    dataJson: "",
    retryable: true,
  });
});

test("what could not be sent as it is becomes a failure", async () => {
  const large = await outcome(typed(() => "é".repeat(10)));
  const message = "the result has 22 bytes; allowed are 20";
  assert.deepEqual(large, { kind: FailureKind.OVERSIZED, message, ...plain });
  const half = await outcome(() => '"\ud800"');
  assert.deepEqual(half, {
    kind: FailureKind.INVALID_ANSWER,
    message: "the result is not valid Unicode",
    ...plain,
  });
});
