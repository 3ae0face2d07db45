import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { CallSchema, CallState, OutcomeSchema, PolicyMode, PolicySchema } from "@trunkline/proto/model";
import { RunSchema, RunState } from "@trunkline/proto/run";
import { describe, expect, test } from "vitest";
import type { Call } from "../../server/src/core/call.js";
import { DEFAULT_POLICY } from "../../server/src/core/policy.js";
import {
  fromDuration,
  toCallMessage,
  toDuration,
  toOutcomeMessage,
  toRunMessage,
  toTimestamp,
} from "../../server/src/service/convert.js";
import {
  fromCallState,
  fromExecutor,
  fromFailureKind,
  fromPolicyMode,
  fromRunState,
  toCallState,
  toExecutor,
  toFailureKind,
  toPolicyMode,
  toRunState,
} from "../../server/src/service/convert-enum.js";
import { toPolicyMessage, toPolicyPatch } from "../../server/src/service/convert-policy.js";
import { cutText } from "../../server/src/service/convert-text.js";
import type { CallRecord } from "../../server/src/store/rows.js";

const RUN_ID = "0192d4e0-7b1a-7c3e-9f4d-2a6b8c0d1e2f";

const BASE = {
  projectId: 1,
  runId: RUN_ID,
  seq: 7,
  id: `${RUN_ID}/7`,
  key: "k",
  turn: null,
  namespace: "u1",
  tool: "crm.find",
  executor: "worker",
  policy: DEFAULT_POLICY,
  version: 3,
  attempt: 2,
  spent: 2,
  failures: 1,
  losses: 0,
  offers: 0,
  tokens: [],
} as const;

const DEFERRED: Call = { ...BASE, state: "deferred", claim: null };
const SUCCEEDED: Call = { ...BASE, state: "succeeded", claim: null, resultJson: '{"n":9007199254740993}' };

function recordOf(call: Call, fields: Partial<CallRecord> = {}): CallRecord {
  return {
    call,
    inputJson: '{"a":1.0}',
    priority: 0,
    traceparent: "",
    labels: { team: "a" },
    toolset: null,
    openedAt: 1_700_000_000_123_456,
    claimedAt: null,
    endedAt: null,
    readyAt: null,
    attemptTimeoutAt: null,
    totalTimeoutAt: null,
    deferTimeoutAt: null,
    runExpiresAt: null,
    progressJson: null,
    attempts: [],
    ...fields,
  };
}

describe("enums", () => {
  test("each state, kind, mode and executor comes back as it went", () => {
    for (const state of ["queued", "claimed", "deferred", "succeeded", "failed", "canceled"] as const) {
      expect(fromCallState(toCallState(state), "state")).toBe(state);
    }
    for (const state of ["active", "ended"] as const)
      expect(fromRunState(toRunState(state), "state")).toBe(state);
    for (const mode of ["retry", "at_most_once"] as const)
      expect(fromPolicyMode(toPolicyMode(mode), "m")).toBe(mode);
    for (const executor of ["worker", "client"] as const) {
      expect(fromExecutor(toExecutor(executor), "executor")).toBe(executor);
    }
    for (const kind of [
      "tool",
      "exception",
      "worker_lost",
      "canceled",
      "invalid_answer",
      "oversized",
    ] as const) {
      expect(fromFailureKind(toFailureKind(kind))).toBe(kind);
    }
  });

  test("a number from a newer peer is refused where it decides, and is a tool failure where it describes", () => {
    expect(() => fromCallState(99 as never, "states[0]")).toThrow("states[0] is 99; allowed are");
    expect(() => fromRunState(99 as never, "state")).toThrow("state is 99");
    expect(() => fromExecutor(99 as never, "executor")).toThrow("executor is 99");
    expect(() => fromPolicyMode(99 as never, "policy.mode")).toThrow("policy.mode is 99");
    expect(fromFailureKind(99 as never)).toBe("tool");
  });
});

describe("times", () => {
  test("an instant keeps its microseconds, before 1970 too", () => {
    expect(toTimestamp(1_700_000_000_123_456)).toMatchObject({ seconds: 1_700_000_000n, nanos: 123_456_000 });
    expect(toTimestamp(-1)).toMatchObject({ seconds: -1n, nanos: 999_999_000 });
  });

  test("milliseconds come back as they went, up to ten years", () => {
    for (const ms of [1, 999, 1_000, 1_500, 30 * 86_400_000, 315_360_000_000]) {
      expect(fromDuration(toDuration(ms), "ttl")).toBe(ms);
    }
  });

  test.each([
    ["negative", { seconds: -1n, nanos: 0 }],
    ["zero", { seconds: 0n, nanos: 0 }],
    ["below a millisecond", { seconds: 0n, nanos: 999_999 }],
    ["with a part of a millisecond", { seconds: 1n, nanos: 1 }],
    ["of two signs", { seconds: 2n, nanos: -1_000_000 }],
    ["above ten years", { seconds: 315_360_000n, nanos: 1_000_000 }],
    ["beyond all numbers", { seconds: 9_223_372_036_854_775_807n, nanos: 0 }],
  ])("a duration that is %s is refused by the name of its field", (_, duration) => {
    const refused = { $typeName: "google.protobuf.Duration", ...duration } as const;
    expect(() => fromDuration(refused, "spec.ttl")).toThrow(
      /^spec\.ttl is .*; allowed are whole milliseconds/,
    );
  });
});

describe("policies", () => {
  test("only the fields that are set make the patch", () => {
    const message = create(PolicySchema, {
      mode: PolicyMode.AT_MOST_ONCE,
      attemptTimeout: toDuration(2_000),
    });
    expect(toPolicyPatch(message, "policy")).toEqual({ mode: "at_most_once", attemptTimeoutMs: 2_000 });
    expect(toPolicyPatch(undefined, "policy")).toEqual({});
  });

  test("a policy comes back as it went", () => {
    const policy = {
      ...DEFAULT_POLICY,
      mode: "at_most_once",
      maxAttempts: 3,
      totalTimeoutMs: 5_000,
    } as const;
    const { attemptTimeoutMs: _a, deferTimeoutMs: _d, ...set } = policy;
    const sent = fromBinary(PolicySchema, toBinary(PolicySchema, toPolicyMessage(policy)));
    expect(toPolicyPatch(sent, "policy")).toEqual(set);
  });

  test("a bad duration is named by its path", () => {
    const message = create(PolicySchema, { deferTimeout: toDuration(-5) });
    expect(() => toPolicyPatch(message, "calls[3].policy")).toThrow(/^calls\[3\]\.policy\.defer_timeout is/);
  });
});

describe("messages", () => {
  test("an outcome keeps the result digit for digit, and its turn only where there is one", () => {
    const message = toOutcomeMessage({ call: { ...SUCCEEDED, turn: 0 }, endedAt: 5 });
    const read = fromBinary(OutcomeSchema, toBinary(OutcomeSchema, message));
    expect(read).toMatchObject({
      callId: `${RUN_ID}/7`,
      turn: 0,
      state: CallState.SUCCEEDED,
      resultJson: '{"n":9007199254740993}',
    });
    expect(read.failure).toBeUndefined();
    const without = toOutcomeMessage({ call: SUCCEEDED, endedAt: null });
    expect(fromBinary(OutcomeSchema, toBinary(OutcomeSchema, without)).turn).toBeUndefined();
  });

  test("a call's times are shown cut to its run's end, and not at all where none is set", () => {
    const record = recordOf(DEFERRED, {
      deferTimeoutAt: 9_000_000,
      totalTimeoutAt: 2_000_000,
      runExpiresAt: 5_000_000,
    });
    const message = toCallMessage(record, { payloads: true });
    expect(message.deferTimeoutAt).toMatchObject({ seconds: 5n });
    expect(message.totalTimeoutAt).toMatchObject({ seconds: 2n });
    expect(message.attemptTimeoutAt).toBeUndefined();
  });

  test("an ended call shows no timer", () => {
    const message = toCallMessage(recordOf(SUCCEEDED, { deferTimeoutAt: 9 }), { payloads: true });
    expect(message.deferTimeoutAt).toBeUndefined();
  });

  test("payloads stay out where they are not wanted", () => {
    const read = (payloads: boolean): unknown => {
      const message = toCallMessage(recordOf(SUCCEEDED), { payloads });
      const { inputJson, resultJson } = fromBinary(CallSchema, toBinary(CallSchema, message));
      return [inputJson, resultJson];
    };
    expect(read(false)).toEqual(["", ""]);
    expect(read(true)).toEqual(['{"a":1.0}', '{"n":9007199254740993}']);
  });

  test("a run without toolset, key and TTL shows none", () => {
    const message = toRunMessage({
      projectId: 1,
      id: RUN_ID,
      key: null,
      namespace: "default",
      toolset: null,
      toolsetVersion: null,
      labels: {},
      state: "active",
      ttlMs: null,
      createdAt: 1_000_000,
      expiresAt: null,
      endedAt: null,
      nextSeq: 1,
    });
    expect(fromBinary(RunSchema, toBinary(RunSchema, message))).toMatchObject({
      key: "",
      toolset: "",
      toolsetVersion: 0,
      state: RunState.ACTIVE,
    });
    expect(message.expiresAt).toBeUndefined();
  });
});

describe("cutText", () => {
  test("leaves what fits as it is", () => {
    expect(cutText("é".repeat(5), 10)).toBe("é".repeat(5));
  });

  test("cuts between two characters, and never into more bytes than allowed", () => {
    for (let bytes = 4; bytes < 40; bytes++) {
      for (const character of ["a", "é", "€", "😀"]) {
        const cut = cutText(character.repeat(50), bytes);
        expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(bytes);
        expect(cut.endsWith("…")).toBe(true);
        expect(cut).not.toContain("\ufffd");
      }
    }
  });

  test("half an emoji becomes U+FFFD (B06)", () => {
    expect(cutText("a\ud83d", 100)).toBe("a\ufffd");
  });
});
