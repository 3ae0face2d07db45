import { expect, test } from "vitest";
import { LIMITS } from "../../server/src/core/limits.js";
import { DEFAULT_POLICY } from "../../server/src/core/policy.js";
import { birth, decide } from "../../server/src/core/transition.js";

test("a call cannot be given tokens without end: its row would grow with each", () => {
  const facts = {
    projectId: 1,
    runId: "0190d3e2-0000-7000-8000-000000000001",
    seq: 1,
    id: "0190d3e2-0000-7000-8000-000000000001/1",
    key: "k",
    turn: null,
    namespace: "u",
    tool: "ask",
    executor: "client",
    policy: DEFAULT_POLICY,
  } as const;
  let { call } = birth(facts, null);
  for (let number = 0; number < LIMITS.tokensPerCall; number++) {
    const { change } = decide(call, { type: "issue_token", tokenHash: `hash-${number}` }, 0);
    expect(change).not.toBeNull();
    call = change?.next ?? call;
  }
  const decision = decide(call, { type: "issue_token", tokenHash: "one more" }, 0);
  expect(decision.change).toBeNull();
  expect(decision.verdict).toMatchObject({ ok: false, reason: "LIMIT_EXCEEDED" });
});
