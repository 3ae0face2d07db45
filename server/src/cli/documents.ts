import type { Call, Failure, Outcome, Policy, RunInfo, ToolDeclarations } from "@trunkline/sdk";
import { JsonText, jsonText, jsonTime, type Json } from "./json-document.js";

/** What goes as it stands: values that came from JSON. */
function plain(value: unknown): JsonText | null {
  return value === undefined ? null : new JsonText(JSON.stringify(value));
}

/** A failure for machines; null when there is none. */
export function failureDocument(failure: Failure | undefined): Json {
  if (failure === undefined) return null;
  const { kind, message, dataJson, retryable, outcomeUnknown } = failure;
  return { kind, message, data: jsonText(dataJson), retryable, outcomeUnknown };
}

/** A run for machines. Every field is always there, null where there is nothing. */
export function runDocument(run: RunInfo): Readonly<Record<string, Json>> {
  return {
    id: run.id,
    key: run.key ?? null,
    namespace: run.namespace,
    toolset: run.toolset ?? null,
    toolsetVersion: run.toolsetVersion ?? null,
    labels: run.labels,
    state: run.state,
    createdAt: jsonTime(run.createdAt),
    expiresAt: jsonTime(run.expiresAt),
    endedAt: jsonTime(run.endedAt),
  };
}

/**
 * A call for machines. Every field is always there, null where there is nothing; input, result and
 * progress, digit for digit, only with `payloads`.
 */
export function callDocument(call: Call, payloads: boolean): Json {
  return {
    id: call.id,
    key: call.key,
    turn: call.turn ?? null,
    tool: call.tool,
    executor: call.executor,
    namespace: call.namespace,
    labels: call.labels,
    state: call.state,
    attempt: call.attempt,
    spent: call.spent,
    worker: call.worker ?? null,
    error: failureDocument(call.error),
    policy: plain(call.policy),
    traceparent: call.traceparent ?? null,
    attempts: call.attempts.map(({ number, worker, claimedAt, endedAt, error }) => ({
      ...{ number, worker, claimedAt: jsonTime(claimedAt), endedAt: jsonTime(endedAt) },
      error: failureDocument(error),
    })),
    openedAt: jsonTime(call.openedAt),
    claimedAt: jsonTime(call.claimedAt),
    endedAt: jsonTime(call.endedAt),
    readyAt: jsonTime(call.readyAt),
    attemptTimeoutAt: jsonTime(call.attemptTimeoutAt),
    totalTimeoutAt: jsonTime(call.totalTimeoutAt),
    deferTimeoutAt: jsonTime(call.deferTimeoutAt),
    ...(payloads && {
      input: jsonText(call.inputJson),
      result: jsonText(call.resultJson),
      progress: plain(call.progress),
    }),
  };
}

/** How a call ended, for machines: its result digit for digit. */
export function outcomeDocument(outcome: Outcome): Json {
  return {
    id: outcome.callId,
    key: outcome.key,
    turn: outcome.turn ?? null,
    tool: outcome.tool,
    state: outcome.state,
    attempt: outcome.attempt,
    endedAt: jsonTime(outcome.endedAt),
    result: jsonText(outcome.resultJson),
    error: failureDocument(outcome.error),
  };
}

/** Tools for machines, in the form that `toolset put` reads. */
export function toolsDocument(tools: ToolDeclarations): Json {
  return plain(tools);
}

/** A policy for people: what differs from nothing, such as `mode=retry maxAttempts=5`. */
export function policyText(policy: Policy | undefined): string {
  const { backoff, ...rest } = policy ?? {};
  const fields = Object.entries({
    ...rest,
    backoffInitial: backoff?.initial,
    backoffFactor: backoff?.factor,
    backoffMax: backoff?.max,
  });
  return fields.flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`])).join(" ");
}

/** Labels for people: `tenant=acme plan=pro`. */
export function labelsText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

/** A moment for people, in UTC, to the second; empty when it has not come. */
export function timeText(at: Date | undefined): string {
  return at === undefined ? "" : at.toISOString().replace(/\.\d+Z$/, "Z");
}
