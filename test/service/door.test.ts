import { create } from "@bufbuild/protobuf";
import { CallSpecSchema, type CallSpec } from "@trunkline/proto/call";
import { FailureKind, FailureSchema, SettlementSchema } from "@trunkline/proto/model";
import { RunSpecSchema } from "@trunkline/proto/run";
import { AnswerSchema } from "@trunkline/proto/worker";
import { describe, expect, test } from "vitest";
import { TrunklineError } from "../../server/src/core/error.js";
import { DEFAULT_POLICY } from "../../server/src/core/policy.js";
import type { OpenRequest } from "../../server/src/exchange/opener.js";
import type { KnownRun } from "../../server/src/exchange/runs.js";
import { toDuration } from "../../server/src/service/convert.js";
import {
  checkAnswer,
  checkCallSpec,
  checkRunSpec,
  checkWorkerAnswer,
  hashToken,
  newSecret,
  parseCallRefId,
  parseTokenText,
} from "../../server/src/service/door.js";
import { compileTools, DeclaredTool, type ToolTable } from "../../server/src/service/toolset-catalog.js";
import type { Tool } from "../../server/src/store/toolsets.js";

const RUN_ID = "0192d4e0-7b1a-7c3e-9f4d-2a6b8c0d1e2f";
const MIB = 1024 * 1024;

const RUN: KnownRun = {
  nextSeq: 1,
  record: {
    projectId: 1,
    id: RUN_ID,
    key: null,
    namespace: "u1",
    toolset: "shop",
    toolsetVersion: 2,
    labels: {},
    state: "active",
    ttlMs: null,
    createdAt: 0,
    expiresAt: null,
    endedAt: null,
    nextSeq: 1,
  },
};

function toolOf(fields: Partial<Tool> & { readonly name: string }): Tool {
  return {
    description: "",
    inputSchemaJson: "",
    outputSchemaJson: null,
    policy: {},
    executor: "worker",
    ...fields,
  };
}

const TOOLS: ToolTable = compileTools(
  [
    toolOf({
      name: "crm.find_customer",
      inputSchemaJson: '{"type":"object","properties":{"email":{"type":"string"}},"required":["email"]}',
    }),
    toolOf({ name: "pay", policy: { mode: "at_most_once" } }),
    toolOf({ name: "ask", executor: "client" }),
  ],
  "tools",
);

type SpecInit = Parameters<typeof create<typeof CallSpecSchema>>[1];

function check(spec: SpecInit, tools: ToolTable | null = null): OpenRequest {
  const message: CallSpec = create(CallSpecSchema, { tool: "pay", ...spec });
  return checkCallSpec(message, { run: RUN, tools, heartbeatIntervalMs: 5_000 }, "calls[3]");
}

function refusal(work: () => unknown): TrunklineError {
  try {
    work();
  } catch (error) {
    if (error instanceof TrunklineError) return error;
    throw error;
  }
  return expect.fail("nothing was refused");
}

describe("checkCallSpec", () => {
  test("what is left out gets its default", () => {
    expect(check({})).toEqual({
      run: RUN,
      tool: "pay",
      executor: "worker",
      policy: DEFAULT_POLICY,
      inputJson: "null",
      key: "",
      turn: null,
      priority: 0,
      traceparent: "",
    });
  });

  test("turn 0 is a turn", () => {
    expect(check({ turn: 0 }).turn).toBe(0);
  });

  test.each<[string, SpecInit, string, RegExp]>([
    ["a missing tool", { tool: "" }, "INVALID_FIELD", /^calls\[3\]\.tool: "" is empty/],
    ["a tool with a space", { tool: "a b" }, "INVALID_FIELD", /^calls\[3\]\.tool: "a b" is not a tool name/],
    [
      "a tool name of 10 KB (B23)",
      { tool: "x".repeat(10_240) },
      "LIMIT_EXCEEDED",
      /calls\[3\]\.tool: .* 10240 bytes/,
    ],
    [
      "input that is no JSON",
      { inputJson: "{a:1}" },
      "INVALID_JSON",
      /^calls\[3\]\.input_json is not JSON: at offset 1/,
    ],
    ["a raw NUL in the input (B06)", { inputJson: '"a\u0000b"' }, "INVALID_JSON", /^calls\[3\]\.input_json/],
    ["a lone high surrogate (B06)", { inputJson: '"\ud83d"' }, "INVALID_JSON", /surrogate/],
    ["a lone low surrogate (B06)", { inputJson: '"\ude00"' }, "INVALID_JSON", /surrogate/],
    [
      "input above 1 MiB",
      { inputJson: `"${"x".repeat(MIB)}"` },
      "LIMIT_EXCEEDED",
      /1048578 bytes; .* 1048576/,
    ],
    [
      "input nested too deeply (B19)",
      { inputJson: "[".repeat(257) + "]".repeat(257) },
      "LIMIT_EXCEEDED",
      /nests 257/,
    ],
    ["100,000 brackets (B19)", { inputJson: "[".repeat(100_000) }, "LIMIT_EXCEEDED", /nests 100000/],
    ["a key with a control character", { key: "a\u0000" }, "INVALID_FIELD", /^calls\[3\]\.key: "a\\u0000"/],
    ["a key of 257 bytes", { key: "k".repeat(257) }, "LIMIT_EXCEEDED", /257 bytes; allowed are at most 256/],
    ["a turn beyond 2^31", { turn: 2 ** 31 }, "INVALID_FIELD", /^calls\[3\]\.turn is 2147483648; allowed/],
    [
      "a priority above 100",
      { priority: 101 },
      "INVALID_FIELD",
      /^calls\[3\]\.priority is 101; allowed is -100 to 100/,
    ],
    ["a malformed trace", { traceparent: "00-abc" }, "INVALID_FIELD", /^calls\[3\]\.traceparent/],
    [
      "no attempts",
      { policy: { maxAttempts: 0 } },
      "INVALID_FIELD",
      /^calls\[3\]\.policy\.max_attempts is 0; allowed/,
    ],
    [
      "a heartbeat timeout below three intervals",
      { policy: { heartbeatTimeout: toDuration(14_999) } },
      "INVALID_FIELD",
      /^calls\[3\]\.policy\.heartbeat_timeout is 14s999ms; allowed is at least three .* 15s/,
    ],
  ])("refuses %s, naming the field", (_, spec, reason, message) => {
    const error = refusal(() => check(spec));
    expect(error.reason).toBe(reason);
    expect(error.message).toMatch(message);
    expect(error.metadata["field"]).toMatch(/^calls\[3\]\./);
  });

  test("the limits themselves are allowed", () => {
    const inputJson = `"${"x".repeat(MIB - 2)}"`;
    expect(check({ inputJson }).inputJson).toBe(inputJson);
    expect(check({ inputJson: "[".repeat(256) + "]".repeat(256) }).inputJson).toHaveLength(512);
    expect(check({ key: "k".repeat(256), priority: -100, turn: 2 ** 31 - 1 }).turn).toBe(2 ** 31 - 1);
  });

  test.each(['"a\\u0000b"', '"\\ud83d"', '"😀"', '"\\\\u0000"', '{"n":9007199254740993,"n":1e400}'])(
    "input %s is kept as it was written (B06)",
    (inputJson) => {
      expect(check({ inputJson }).inputJson).toBe(inputJson);
    },
  );

  test("a tool that the toolset does not declare is refused with the names that may have been meant", () => {
    const error = refusal(() => check({ tool: "crm.find_custmer" }, TOOLS));
    expect(error.reason).toBe("TOOL_UNKNOWN");
    expect(error.message).toContain('toolset "shop" version 2 does not declare "crm.find_custmer"');
    expect(error.message).toMatch(/such as "crm\.find_customer"/);
  });

  test("input that the schema refuses is named with the place in it", () => {
    const error = refusal(() => check({ tool: "crm.find_customer", inputJson: '{"email":42}' }, TOOLS));
    expect(error.reason).toBe("SCHEMA_VIOLATION");
    expect(error.message).toMatch(/^calls\[3\]\.input_json\/email: must be a string, got 42/);
  });

  test("a call's own policy replaces its tool's field by field", () => {
    expect(check({ tool: "pay" }, TOOLS).policy).toMatchObject({ mode: "at_most_once", maxAttempts: 1 });
    expect(check({ tool: "pay", policy: { maxAttempts: 3 } }, TOOLS).policy).toMatchObject({
      mode: "at_most_once",
      maxAttempts: 3,
    });
  });

  test("the executor is the declaration's", () => {
    expect(check({ tool: "ask" }, TOOLS).executor).toBe("client");
  });

  test("a tool named like a member of every object is unknown like any other (S15)", () => {
    expect(refusal(() => check({ tool: "__proto__" }, TOOLS)).reason).toBe("TOOL_UNKNOWN");
    expect(refusal(() => check({ tool: "constructor" }, TOOLS)).reason).toBe("TOOL_UNKNOWN");
  });
});

describe("checkRunSpec", () => {
  const all = { projectId: 1, namespace: null };

  test("the namespace is `default`, or that of the credential", () => {
    const spec = create(RunSpecSchema, {});
    expect(checkRunSpec(spec, all).namespace).toBe("default");
    expect(checkRunSpec(spec, { projectId: 1, namespace: "u1" }).namespace).toBe("u1");
  });

  test("a credential of one end user makes no run for another", () => {
    const spec = create(RunSpecSchema, { namespace: "u2" });
    const error = refusal(() => checkRunSpec(spec, { projectId: 1, namespace: "u1" }));
    expect(error.reason).toBe("PERMISSION_DENIED");
  });

  test("labels with a NUL or half an emoji are refused (B06)", () => {
    for (const bad of ["a\u0000", "\ud83d", "\ude00"]) {
      expect(refusal(() => checkRunSpec(create(RunSpecSchema, { labels: { bad } }), all)).reason).toBe(
        "INVALID_FIELD",
      );
      expect(refusal(() => checkRunSpec(create(RunSpecSchema, { labels: { [bad]: "x" } }), all)).reason).toBe(
        "INVALID_FIELD",
      );
    }
    const labels = { emoji: "😀", escaped: "\\u0000" };
    expect(checkRunSpec(create(RunSpecSchema, { labels }), all).labels).toEqual(labels);
  });

  test("33 labels are one too many", () => {
    const labels = Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`l${index}`, ""]));
    expect(refusal(() => checkRunSpec(create(RunSpecSchema, { labels }), all)).message).toMatch(
      /^spec\.labels has 33 labels; allowed are at most 32/,
    );
  });

  test("a TTL of 60 days is kept to the millisecond (B07)", () => {
    const ttl = toDuration(60 * 86_400_000);
    expect(checkRunSpec(create(RunSpecSchema, { ttl }), all).ttlMs).toBe(60 * 86_400_000);
  });
});

describe("answers from outside", () => {
  const result = (resultJson: string) =>
    create(SettlementSchema, { outcome: { case: "resultJson", value: resultJson } });
  const tool = new DeclaredTool(toolOf({ name: "t", outputSchemaJson: '{"type":"number"}' }), "tools[0]");

  test("a settlement without outcome is refused", () => {
    expect(refusal(() => checkAnswer(create(SettlementSchema), "settlement", undefined)).reason).toBe(
      "INVALID_FIELD",
    );
    expect(refusal(() => checkAnswer(undefined, "settlement", undefined)).reason).toBe("INVALID_FIELD");
  });

  test("a result that the output schema refuses changes nothing", () => {
    const error = refusal(() => checkAnswer(result('"x"'), "items[0].settlement", tool));
    expect(error.reason).toBe("SCHEMA_VIOLATION");
    expect(error.message).toMatch(/^items\[0\]\.settlement\.result_json: must be a number, got "x"/);
    expect(checkAnswer(result("1"), "s", tool)).toEqual({ type: "result", resultJson: "1" });
  });

  test("the server alone says what a settled failure is, and whether its outcome is unknown", () => {
    const failure = create(FailureSchema, {
      kind: FailureKind.WORKER_LOST,
      message: "no",
      dataJson: '{"a":1}',
      outcomeUnknown: true,
      retryable: true,
    });
    const answer = checkAnswer(
      create(SettlementSchema, { outcome: { case: "failure", value: failure } }),
      "s",
      undefined,
    );
    expect(answer).toEqual({
      type: "failure",
      failure: { kind: "tool", message: "no", dataJson: '{"a":1}', retryable: true, outcomeUnknown: false },
    });
  });

  test.each([
    ["a message above 8 KiB", { message: "m".repeat(8 * 1024 + 1) }, "LIMIT_EXCEEDED", "s.failure.message"],
    ["half an emoji in the message", { message: "\ud83d" }, "INVALID_FIELD", "s.failure.message"],
    ["data that are no JSON", { dataJson: "{" }, "INVALID_JSON", "s.failure.data_json"],
    [
      "data above 64 KiB",
      { dataJson: `"${"d".repeat(64 * 1024)}"` },
      "LIMIT_EXCEEDED",
      "s.failure.data_json",
    ],
  ])("%s is refused (B06, B23)", (_, init, reason, field) => {
    const failure = create(FailureSchema, init);
    const settlement = create(SettlementSchema, { outcome: { case: "failure", value: failure } });
    const error = refusal(() => checkAnswer(settlement, "s", undefined));
    expect([error.reason, error.metadata["field"]]).toEqual([reason, field]);
  });
});

describe("answers of workers", () => {
  type AnswerInit = Parameters<typeof create<typeof AnswerSchema>>[1];
  const answer = (outcome: NonNullable<AnswerInit>["outcome"], tool?: DeclaredTool) =>
    checkWorkerAnswer(create(AnswerSchema, { outcome: outcome! }), tool);
  const failed = (kind: string, message: RegExp) => ({
    type: "failure",
    failure: {
      kind,
      message: expect.stringMatching(message),
      dataJson: null,
      retryable: false,
      outcomeUnknown: false,
    },
  });

  test("a result is kept as it was written", () => {
    expect(answer({ case: "resultJson", value: ' {"a": 1e400} ' })).toEqual({
      type: "result",
      resultJson: ' {"a": 1e400} ',
    });
  });

  test.each([
    ["no JSON", "{", "invalid_answer", /result is not JSON/],
    ["empty", "", "invalid_answer", /result is empty/],
    ["half an emoji (B06)", '"\ud83d"', "invalid_answer", /surrogate/],
    ["a raw NUL (B06)", '"\u0000"', "invalid_answer", /control character/],
    ["nested too deeply (B19)", "[".repeat(5_000) + "]".repeat(5_000), "invalid_answer", /nests 5000/],
    ["above 1 MiB (B23)", `"${"r".repeat(MIB)}"`, "oversized", /1048578 bytes; allowed are at most 1048576/],
  ])("a result that is %s fails its call with the reason", (_, value, kind, message) => {
    expect(answer({ case: "resultJson", value })).toEqual(failed(kind, message));
  });

  test("a result that the output schema refuses fails its call", () => {
    const tool = new DeclaredTool(toolOf({ name: "t", outputSchemaJson: '{"type":"number"}' }), "tools[0]");
    expect(answer({ case: "resultJson", value: '"x"' }, tool)).toEqual(
      failed("invalid_answer", /must be a number/),
    );
    expect(answer({ case: "resultJson", value: "1" }, tool)).toEqual({ type: "result", resultJson: "1" });
  });

  test("an answer with neither result nor failure fails its call", () => {
    expect(answer({ case: undefined })).toEqual(failed("invalid_answer", /result_json or a failure/));
  });

  test("a worker's kinds are its own, and what only the server can know counts as `tool`", () => {
    const kindOf = (kind: FailureKind): unknown => {
      const given = answer({ case: "failure", value: create(FailureSchema, { kind, outcomeUnknown: true }) });
      return given.type === "failure" ? [given.failure.kind, given.failure.outcomeUnknown] : undefined;
    };
    expect(kindOf(FailureKind.EXCEPTION)).toEqual(["exception", false]);
    expect(kindOf(FailureKind.OVERSIZED)).toEqual(["oversized", false]);
    expect(kindOf(FailureKind.WORKER_LOST)).toEqual(["tool", false]);
    expect(kindOf(77 as never)).toEqual(["tool", false]);
  });

  test("a long or torn failure message is cut and mended, and the call still fails with it (B06)", () => {
    const given = answer({
      case: "failure",
      value: create(FailureSchema, { message: `\ud83d${"€".repeat(8_000)}`, retryable: true }),
    });
    if (given.type !== "failure") return expect.fail("it is no failure");
    expect(given.failure.message.startsWith("\ufffd€")).toBe(true);
    expect(Buffer.byteLength(given.failure.message)).toBeLessThanOrEqual(8 * 1024);
    expect(given.failure.retryable).toBe(true);
  });

  test.each([
    ["no JSON", '{"\ud83d":1}', "invalid_answer"],
    ["above 64 KiB", `"${"d".repeat(64 * 1024)}"`, "oversized"],
  ])(
    "failure data that are %s end the call all the same, with the failure's own message (B06)",
    (_, dataJson, kind) => {
      const value = create(FailureSchema, { message: "card declined", dataJson });
      expect(answer({ case: "failure", value })).toEqual(failed(kind, /data_json .*card declined/));
    },
  );
});

describe("ids and tokens", () => {
  test.each([
    "",
    "x",
    RUN_ID,
    `${RUN_ID}/0`,
    `${RUN_ID}/2147483648`,
    `${RUN_ID.toUpperCase()}/1`,
    `${RUN_ID}/1 `,
  ])("%j is the id of no call", (text) => {
    expect(refusal(() => parseCallRefId(text)).reason).toBe("NOT_FOUND");
  });

  test("an id of 10 KB is not repeated in the error (B23)", () => {
    expect(refusal(() => parseCallRefId("x".repeat(10_240))).message.length).toBeLessThan(200);
  });

  test("a token that is none gets the one answer, which does not repeat it", () => {
    const error = refusal(() => parseTokenText("secret-stuff"));
    expect(error.reason).toBe("TOKEN_INVALID");
    expect(error.message).not.toContain("secret-stuff");
  });

  test("a secret has 256 bits, and only its hash is kept", () => {
    const secret = newSecret();
    expect(Buffer.from(secret, "base64url")).toHaveLength(32);
    expect(parseTokenText(`${RUN_ID}/7.2.${secret}`)).toEqual({ runId: RUN_ID, seq: 7, attempt: 2, secret });
    expect(hashToken(secret)).toMatch(/^[0-9a-f]{64}$/);
  });
});
