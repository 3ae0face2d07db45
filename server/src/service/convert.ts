import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type {
  Attempt as WireAttempt,
  Call as WireCall,
  Failure as WireFailure,
  Outcome as WireOutcome,
} from "@trunkline/proto/model";
import type { Run as WireRun } from "@trunkline/proto/run";
import { isEnded, type Call } from "../core/call.js";
import type { Failure } from "../core/failure.js";
import { formatCallId } from "../core/name.js";
import type { AttemptRecord, CallRecord, Instant } from "../store/rows.js";
import type { RunRecord } from "../store/runs.js";
import { toCallState, toExecutor, toFailureKind, toRunState } from "./convert-enum.js";
import { toPolicyMessage } from "./convert-policy.js";
import { toTimestamp } from "./convert-time.js";

export { fromDuration, toDuration, toTimestamp } from "./convert-time.js";

/** A failure as callers see it. */
export function toFailureMessage(failure: Failure): WireFailure {
  return {
    $typeName: "trunkline.v1.Failure",
    kind: toFailureKind(failure.kind),
    message: failure.message,
    dataJson: failure.dataJson ?? "",
    retryable: failure.retryable,
    outcomeUnknown: failure.outcomeUnknown,
  };
}

/** How a call ended. A plain object, because this one is made for every call. */
export function toOutcomeMessage(ended: {
  readonly call: Call;
  readonly endedAt: Instant | null;
}): WireOutcome {
  const { call, endedAt } = ended;
  const message: WireOutcome = {
    $typeName: "trunkline.v1.Outcome",
    callId: formatCallId(call),
    key: call.key,
    tool: call.tool,
    state: toCallState(call.state),
    resultJson: call.state === "succeeded" ? call.resultJson : "",
    attempt: call.attempt,
  };
  if (call.turn !== null) message.turn = call.turn;
  if (call.state === "failed" || call.state === "canceled") message.failure = toFailureMessage(call.failure);
  if (endedAt !== null) message.endedAt = toTimestamp(endedAt);
  return message;
}

/** The failed attempts of a call, oldest first. */
export function toAttempts(attempts: readonly AttemptRecord[]): WireAttempt[] {
  return attempts.map(({ number, worker, claimedAt, endedAt, failure }) => ({
    $typeName: "trunkline.v1.Attempt",
    number,
    worker,
    claimedAt: timestampOf(claimedAt),
    endedAt: toTimestamp(endedAt),
    failure: toFailureMessage(failure),
  }));
}

/**
 * A call as it stands. Times that would outlast its run are shown cut to the run's end, which is when the
 * call ends.
 *
 * @param options.payloads whether input and result come with it
 */
export function toCallMessage(record: CallRecord, options: { readonly payloads: boolean }): WireCall {
  const { call } = record;
  const message: WireCall = {
    $typeName: "trunkline.v1.Call",
    id: formatCallId(call),
    key: call.key,
    tool: call.tool,
    executor: toExecutor(call.executor),
    namespace: call.namespace,
    labels: { ...record.labels },
    state: toCallState(call.state),
    attempt: call.attempt,
    spent: call.spent,
    inputJson: options.payloads ? record.inputJson : "",
    resultJson: options.payloads && call.state === "succeeded" ? call.resultJson : "",
    policy: toPolicyMessage(call.policy),
    progressJson: record.progressJson ?? "",
    worker: call.claim?.worker ?? "",
    attempts: toAttempts(record.attempts),
    openedAt: toTimestamp(record.openedAt),
    claimedAt: timestampOf(record.claimedAt),
    endedAt: timestampOf(record.endedAt),
    traceparent: record.traceparent,
  };
  if (call.turn !== null) message.turn = call.turn;
  if (call.state === "failed" || call.state === "canceled") message.failure = toFailureMessage(call.failure);
  if (!isEnded(call)) showTimers(message, record);
  return message;
}

function showTimers(message: WireCall, record: CallRecord): void {
  message.readyAt = timestampOf(cutToRun(record, record.readyAt));
  message.attemptTimeoutAt = timestampOf(cutToRun(record, record.attemptTimeoutAt));
  message.totalTimeoutAt = timestampOf(cutToRun(record, record.totalTimeoutAt));
  message.deferTimeoutAt = timestampOf(cutToRun(record, record.deferTimeoutAt));
}

/** A due time of a call, or its run's end where that comes first; null where none is set. */
export function cutToRun(
  { runExpiresAt }: { readonly runExpiresAt: Instant | null },
  instant: Instant | null,
): Instant | null {
  if (instant === null || runExpiresAt === null) return instant;
  return Math.min(instant, runExpiresAt);
}

/** A run as it stands. */
export function toRunMessage(run: RunRecord): WireRun {
  return {
    $typeName: "trunkline.v1.Run",
    id: run.id,
    key: run.key ?? "",
    namespace: run.namespace,
    toolset: run.toolset ?? "",
    toolsetVersion: run.toolsetVersion ?? 0,
    labels: { ...run.labels },
    state: toRunState(run.state),
    createdAt: toTimestamp(run.createdAt),
    expiresAt: timestampOf(run.expiresAt),
    endedAt: timestampOf(run.endedAt),
  };
}

function timestampOf(instant: Instant | null): Timestamp | undefined {
  return instant === null ? undefined : toTimestamp(instant);
}
