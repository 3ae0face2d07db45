import { randomUUID } from "node:crypto";
import type { DescService } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { AdminService } from "@trunkline/proto/admin";
import { CallService } from "@trunkline/proto/call";
import { Health, HealthCheckResponse_ServingStatus as Serving } from "@trunkline/proto/health";
import { CallState } from "@trunkline/proto/model";
import { RunService, RunState } from "@trunkline/proto/run";
import { TaskService } from "@trunkline/proto/task";
import { ToolsetService } from "@trunkline/proto/toolset";
import { WorkerService } from "@trunkline/proto/worker";
import { expect } from "vitest";
import { ADMIN_CASES } from "./protocol-admin-cases.js";
import {
  claimed,
  clientCall,
  deferred,
  EXACT,
  NOBODY,
  openOne,
  settlement,
  type UnaryCase,
} from "./protocol-case.js";

const SECRET = "s".repeat(43);

const CALLS: Record<string, UnaryCase> = {
  OpenCalls: {
    answers: async (by) => {
      const { run } = await by.runs.createRun({ spec: {} });
      const calls = [{ tool: "t", key: "ключ", turn: 0 }, { tool: "two words" }];
      const { results } = await by.calls.openCalls({ runId: run?.id ?? "", calls });
      expect(results).toMatchObject([
        { result: { case: "opened", value: { callId: `${run?.id}/1`, key: "ключ", created: true } } },
        { result: { case: "problem", value: { code: Code.InvalidArgument } } },
      ]);
    },
    refuses: (by) => by.calls.openCalls({ runId: NOBODY, calls: [{ tool: "t" }] }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
  WaitCalls: {
    answers: async (by) => {
      const { callId } = await openOne(by, { tool: "nobody" });
      const waiting = by.calls.waitCalls({ calls: [{ callId }], timeout: durationFromMs(20_000) });
      await by.calls.settleCalls({ items: [{ call: { callId }, settlement }] });
      expect(await waiting).toMatchObject({ settled: true, outcomes: [{ callId, resultJson: EXACT }] });
    },
    refuses: (by) => by.calls.waitCalls({ calls: [] }),
    reason: "INVALID_FIELD",
    code: Code.InvalidArgument,
  },
  GetCall: {
    answers: async (by) => {
      const { callId } = await openOne(by, { tool: "nobody", inputJson: EXACT, turn: 4_000 });
      const { call } = await by.calls.getCall({ call: { callId } });
      expect(call).toMatchObject({ id: callId, state: CallState.QUEUED, inputJson: EXACT, turn: 4_000 });
      expect(call?.openedAt?.seconds).toBeGreaterThan(1_700_000_000n);
    },
    refuses: (by) => by.calls.getCall({ call: { callId: 'é "€" 😀\n\u0001%20' } }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
  ListCalls: {
    answers: async (by) => {
      const { runId, callId } = await openOne(by, { tool: "nobody" });
      const { calls } = await by.calls.listCalls({ runId, states: [CallState.QUEUED], payloads: true });
      expect(calls).toMatchObject([{ id: callId }]);
    },
    refuses: (by) => by.calls.listCalls({ pageToken: "made up" }),
    reason: "INVALID_FIELD",
    code: Code.InvalidArgument,
  },
  CancelCall: {
    answers: async (by) => {
      const { callId } = await openOne(by, { tool: "nobody" });
      expect(await by.calls.cancelCall({ call: { callId } })).toMatchObject({
        callId,
        state: CallState.CANCELED,
      });
    },
    refuses: (by) => by.calls.cancelCall({ call: { runId: NOBODY, key: "k" } }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
  SettleCalls: {
    answers: async (by) => {
      const { callId } = await clientCall(by);
      const items = [
        { call: { callId }, attempt: 2, settlement },
        { call: { callId }, attempt: 1, settlement },
      ];
      expect((await by.calls.settleCalls({ items })).results).toMatchObject([
        { callId, problem: { code: Code.FailedPrecondition, message: expect.stringContaining("attempt") } },
        { callId, state: CallState.SUCCEEDED },
      ]);
    },
    refuses: (by) => by.calls.settleCalls({ items: [] }),
    reason: "INVALID_FIELD",
    code: Code.InvalidArgument,
  },
  IssueToken: {
    answers: async (by) => {
      const { callId, token } = await deferred(by);
      expect(token.startsWith(`${callId}.1.`)).toBe(true);
    },
    refuses: async (by) => {
      const { callId } = await openOne(by, { tool: "nobody" });
      return by.calls.issueToken({ call: { callId } });
    },
    reason: "CALL_NOT_DEFERRED",
    code: Code.FailedPrecondition,
  },
};

const RUNS: Record<string, UnaryCase> = {
  CreateRun: {
    answers: async (by) => {
      const spec = { namespace: "alice", labels: { team: "a" }, ttl: durationFromMs(3_600_000) };
      const { run, created } = await by.runs.createRun({ spec });
      expect({ run, created }).toMatchObject({
        run: { namespace: "alice", labels: { team: "a" }, state: RunState.ACTIVE },
        created: true,
      });
      const { seconds: made = 0n } = run?.createdAt ?? {};
      expect(run?.expiresAt?.seconds).toBe(made + 3_600n);
    },
    refuses: async (by) => {
      const key = randomUUID();
      await by.runs.createRun({ spec: { key } });
      return by.runs.createRun({ spec: { key, labels: { other: "1" } } });
    },
    reason: "KEY_REUSED",
    code: Code.AlreadyExists,
  },
  GetRun: {
    answers: async (by) => {
      const { runId } = await openOne(by, { tool: "nobody" });
      expect(await by.runs.getRun({ runId })).toMatchObject({ run: { id: runId }, calls: 1, openCalls: 1 });
    },
    refuses: (by) => by.runs.getRun({ runId: NOBODY }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
  ListRuns: {
    answers: async (by) => {
      const labels = { only: randomUUID() };
      const { run } = await by.runs.createRun({ spec: { labels } });
      expect((await by.runs.listRuns({ labels })).runs).toMatchObject([{ id: run?.id, labels }]);
    },
    refuses: (by) => by.runs.listRuns({ state: JSON.parse("99") as RunState }),
    reason: "INVALID_FIELD",
    code: Code.InvalidArgument,
  },
  EndRun: {
    answers: async (by) => {
      const { runId } = await openOne(by, { tool: "nobody" });
      expect((await by.runs.endRun({ runId })).run).toMatchObject({ id: runId, state: RunState.ENDED });
    },
    refuses: (by) => by.runs.endRun({ runId: NOBODY }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
};

const TASKS: Record<string, UnaryCase> = {
  CompleteTask: {
    answers: async (by) => {
      const { callId, token } = await deferred(by);
      expect(await by.tasks.completeTask({ token, resultJson: EXACT })).toMatchObject({ callId });
      expect((await by.calls.getCall({ call: { callId } })).call?.resultJson).toBe(EXACT);
    },
    refuses: (by) => by.tasks.completeTask({ token: `${NOBODY}/1.1.${SECRET}` }),
    reason: "TOKEN_INVALID",
    code: Code.NotFound,
  },
  FailTask: {
    answers: async (by) => {
      const { callId, token } = await deferred(by);
      const failure = { message: "the user is away: é € 😀", dataJson: EXACT };
      expect(await by.tasks.failTask({ token, failure })).toMatchObject({ callId, state: CallState.FAILED });
      expect((await by.calls.getCall({ call: { callId } })).call?.failure).toMatchObject(failure);
    },
    refuses: async (by) => {
      const { token } = await deferred(by);
      await by.tasks.completeTask({ token });
      return by.tasks.failTask({ token, failure: { message: "after all" } });
    },
    reason: "CALL_ENDED",
    code: Code.FailedPrecondition,
  },
  GetTask: {
    answers: async (by) => {
      const { callId, token } = await deferred(by);
      expect(await by.tasks.getTask({ token })).toMatchObject({ callId, tool: "approve", inputJson: EXACT });
    },
    refuses: (by) => by.tasks.getTask({ token: "made up" }),
    reason: "TOKEN_INVALID",
    code: Code.NotFound,
  },
};

const TOOLSETS: Record<string, UnaryCase> = {
  PutToolset: {
    answers: async (by) => {
      const id = randomUUID();
      const tools = [{ name: "find", inputSchemaJson: '{"type": "object"}' }];
      for (const changed of [true, false]) {
        expect(await by.toolsets.putToolset({ id, tools })).toMatchObject({
          toolset: { id, version: 1 },
          changed,
        });
      }
    },
    refuses: (by) =>
      by.toolsets.putToolset({ id: "s", tools: [{ name: "t", inputSchemaJson: '{"type": 7}' }] }),
    reason: "SCHEMA_VIOLATION",
    code: Code.InvalidArgument,
  },
  GetToolset: {
    answers: async (by) => {
      const id = randomUUID();
      const tools = [{ name: "find", description: "é € 😀" }];
      await by.toolsets.putToolset({ id, tools });
      expect((await by.toolsets.getToolset({ id })).toolset).toMatchObject({ id, version: 1, tools });
    },
    refuses: (by) => by.toolsets.getToolset({ id: "nobody's" }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
  ListToolsets: {
    answers: async (by) => {
      await by.toolsets.putToolset({ id: " first", tools: [{ name: "t" }] });
      expect((await by.toolsets.listToolsets({ pageSize: 1 })).toolsets).toHaveLength(1);
    },
    refuses: (by) => by.toolsets.listToolsets({ pageToken: "made up" }),
    reason: "INVALID_FIELD",
    code: Code.InvalidArgument,
  },
  DeleteToolset: {
    answers: async (by) => {
      const id = randomUUID();
      await by.toolsets.putToolset({ id, tools: [{ name: "t" }] });
      await by.toolsets.deleteToolset({ id });
      await expect(by.toolsets.getToolset({ id })).rejects.toMatchObject({ code: Code.NotFound });
    },
    refuses: (by) => by.toolsets.deleteToolset({ id: "nobody's" }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
};

const WORKER: Record<string, UnaryCase> = {
  ClaimCalls: {
    answers: async (by) => {
      await claimed(by);
    },
    refuses: async (by) => {
      const { hello } = await claimed(by);
      const held = { hello, wait: durationFromMs(0) };
      await by.worker.claimCalls({ ...held, hello: { ...hello, number: 2n } });
      return by.worker.claimCalls({ ...held, hello: { ...hello, number: 1n } });
    },
    reason: "SUPERSEDED",
    code: Code.Aborted,
  },
  Heartbeat: {
    answers: async (by) => {
      const { who, held, callId, claim } = await claimed(by);
      const progress = [{ claimId: claim.claimId, progressJson: EXACT }];
      const lost = { callId, claimId: "none" };
      expect(await by.worker.heartbeat({ ...who, claims: [held, lost], progress })).toMatchObject({
        lost: ["none"],
      });
    },
    refuses: (by) => by.worker.heartbeat({ sessionId: "nobody", nonce: "0123456789abcdef" }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
  AnswerCalls: {
    answers: async (by) => {
      const { who, held, callId } = await claimed(by);
      const answers = [
        { ...held, outcome: settlement.outcome },
        { ...held, claimId: "none" },
      ];
      expect((await by.worker.answerCalls({ ...who, answers })).acks).toMatchObject([
        { claimId: held.claimId },
        { claimId: "none", problem: { code: Code.Aborted } },
      ]);
      expect((await by.calls.getCall({ call: { callId } })).call?.resultJson).toBe(EXACT);
    },
    refuses: (by) => by.worker.answerCalls({ sessionId: "s", nonce: "0123456789abcdef" }),
    reason: "INVALID_FIELD",
    code: Code.InvalidArgument,
  },
  DeferCall: {
    answers: async (by) => {
      const { who, held, callId } = await claimed(by);
      const deferral = { ...held, timeout: durationFromMs(60_000) };
      const { ack } = await by.worker.deferCall({ ...who, deferral });
      expect(ack?.deferred?.token.startsWith(`${callId}.1.`)).toBe(true);
      expect(ack?.deferred?.expiresAt?.seconds).toBeGreaterThan(1_700_000_000n);
    },
    refuses: (by) => by.worker.deferCall({ sessionId: "s", nonce: "0123456789abcdef" }),
    reason: "INVALID_FIELD",
    code: Code.InvalidArgument,
  },
  ReleaseCalls: {
    answers: async (by) => {
      const { who, held } = await claimed(by);
      const { acks } = await by.worker.releaseCalls({ ...who, releases: [held] });
      expect(acks).toMatchObject([{ claimId: held.claimId }]);
    },
    refuses: (by) => by.worker.releaseCalls({ sessionId: "", nonce: "0123456789abcdef", releases: [{}] }),
    reason: "INVALID_FIELD",
    code: Code.InvalidArgument,
  },
};

const HEALTH: Record<string, UnaryCase> = {
  Check: {
    answers: async (by) => {
      expect(await by.health.check({ service: CallService.typeName })).toMatchObject({
        status: Serving.SERVING,
      });
    },
    refuses: (by) => by.health.check({ service: "none" }),
    reason: "NOT_FOUND",
    code: Code.NotFound,
  },
};

const CASES: readonly (readonly [DescService, Readonly<Record<string, UnaryCase>>])[] = [
  [AdminService, ADMIN_CASES],
  [CallService, CALLS],
  [Health, HEALTH],
  [RunService, RUNS],
  [TaskService, TASKS],
  [ToolsetService, TOOLSETS],
  [WorkerService, WORKER],
];

/** By service and RPC. */
export const UNARY_CASES: ReadonlyMap<string, UnaryCase> = new Map(
  CASES.flatMap(([{ typeName }, cases]) =>
    Object.entries(cases).map(([rpc, unaryCase]) => [`${typeName}/${rpc}`, unaryCase] as const),
  ),
);
