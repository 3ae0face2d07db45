import { randomUUID } from "node:crypto";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { Code } from "@connectrpc/connect";
import { Executor } from "@trunkline/proto/model";
import type { Reason } from "@trunkline/proto/problem";
import type { Claim } from "@trunkline/proto/worker";
import { expect } from "vitest";
import type { Clients } from "./protocol-clients.js";
import { newHello } from "./raw-stream.js";

/** How one RPC has to behave, whatever carries it. */
export interface UnaryCase {
  /** Asks for what it is there for. Not set: it is not built yet. */
  readonly answers?: (by: Clients) => Promise<void>;
  /** Asks for what it refuses. */
  readonly refuses: (by: Clients) => Promise<unknown>;
  /** Why it does. */
  readonly reason: keyof typeof Reason;
  readonly code: Code;
}

/** Numbers that no parser of JavaScript keeps, characters of every width, and space that no writer makes. */
export const EXACT = '{ "n": 12345678901234567890.01,\t"m": [1e400, -0.0], "é": "€ 😀 \\u0000" }';
/** The id of a run that there is not. */
export const NOBODY = "0192d4e0-7b1a-7c3e-9f4d-2a6b8c0d1e2f";

type Spec = NonNullable<Parameters<Clients["calls"]["openCalls"]>[0]["calls"]>[number];

/** A call in a run of its own. */
export async function openOne(
  by: Clients,
  spec: Spec,
): Promise<{ readonly runId: string; readonly callId: string }> {
  const { run } = await by.runs.createRun({ spec: {} });
  const runId = run?.id ?? expect.fail("no run was made");
  const { results } = await by.calls.openCalls({ runId, calls: [spec] });
  const result = results[0]?.result;
  return result?.case === "opened" ? { runId, callId: result.value.callId } : expect.fail("not opened");
}

/** A call that a worker holds, by single requests. */
export async function claimed(by: Clients) {
  const tool = `tool-${randomUUID()}`;
  const { callId } = await openOne(by, { tool, inputJson: EXACT });
  const hello = newHello({ tools: [tool], slots: 1 });
  const { sessionId = "", nonce = "" } = hello;
  const { claims } = await by.worker.claimCalls({ hello, wait: durationFromMs(5_000) });
  const claim: Claim = claims[0] ?? expect.fail("no claim came");
  expect(claim).toMatchObject({ callId, inputJson: EXACT });
  return { who: { sessionId, nonce }, hello, callId, claim, held: { callId, claimId: claim.claimId } };
}

/** A token for a call that is to be settled by a client. */
export async function deferred(by: Clients) {
  const { callId } = await clientCall(by);
  const { token } = await by.calls.issueToken({ call: { callId } });
  return { callId, token };
}

/** A call that waits for a client to settle it. */
export async function clientCall(by: Clients): Promise<{ readonly callId: string }> {
  const id = `set-${randomUUID()}`;
  await by.toolsets.putToolset({ id, tools: [{ name: "approve", executor: Executor.CLIENT }] });
  const { run } = await by.runs.createRun({ spec: { toolset: id } });
  const { results } = await by.calls.openCalls({
    runId: run?.id ?? "",
    calls: [{ tool: "approve", inputJson: EXACT }],
  });
  const result = results[0]?.result;
  return result?.case === "opened" ? { callId: result.value.callId } : expect.fail("not opened");
}

/** A success. */
export const settlement = { outcome: { case: "resultJson" as const, value: EXACT } };
