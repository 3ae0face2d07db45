import type {
  CallJson,
  CallStateJson,
  ExecutorJson,
  FailureJson,
  FailureKindJson,
  PolicyJson,
  PolicyModeJson,
} from "@trunkline/proto/model";
import type { RunJson, RunStateJson } from "@trunkline/proto/run";
import type { Call, CallState, Executor } from "../call.js";
import { formatDuration, type Duration } from "../duration.js";
import type { Failure, FailureKind } from "../errors.js";
import type { Policy, PolicyMode } from "../policy.js";
import type { RunInfo, RunState } from "../run-info.js";

/*
 * Calls and runs as JSON has them, read without the runtime for binary messages, which is larger than all of the
 * browser's entry.
 */

const STATE_OF: Record<CallStateJson, CallState> = {
  // A state that this SDK does not know is at least not final.
  CALL_STATE_UNSPECIFIED: "queued",
  CALL_STATE_QUEUED: "queued",
  CALL_STATE_CLAIMED: "claimed",
  CALL_STATE_DEFERRED: "deferred",
  CALL_STATE_SUCCEEDED: "succeeded",
  CALL_STATE_FAILED: "failed",
  CALL_STATE_CANCELED: "canceled",
};

const EXECUTOR_OF: Record<ExecutorJson, Executor> = {
  EXECUTOR_UNSPECIFIED: "worker",
  EXECUTOR_WORKER: "worker",
  EXECUTOR_CLIENT: "client",
};

const KIND_OF: Record<FailureKindJson, FailureKind> = {
  FAILURE_KIND_UNSPECIFIED: "tool",
  FAILURE_KIND_TOOL: "tool",
  FAILURE_KIND_EXCEPTION: "exception",
  FAILURE_KIND_WORKER_LOST: "worker_lost",
  FAILURE_KIND_ATTEMPT_TIMEOUT: "attempt_timeout",
  FAILURE_KIND_TOTAL_TIMEOUT: "total_timeout",
  FAILURE_KIND_DEFER_TIMEOUT: "defer_timeout",
  FAILURE_KIND_CANCELED: "canceled",
  FAILURE_KIND_INVALID_ANSWER: "invalid_answer",
  FAILURE_KIND_OVERSIZED: "oversized",
};

const MODE_OF: Record<PolicyModeJson, PolicyMode> = {
  POLICY_MODE_UNSPECIFIED: "retry",
  POLICY_MODE_RETRY: "retry",
  POLICY_MODE_AT_MOST_ONCE: "at_most_once",
};

const RUN_STATE_OF: Record<RunStateJson, RunState> = {
  RUN_STATE_UNSPECIFIED: "active",
  RUN_STATE_ACTIVE: "active",
  RUN_STATE_ENDED: "ended",
};

/** What a table has for an enum's name; names of newer servers, which come as numbers, get the fallback. */
function translate<Name extends string, Value>(
  table: Readonly<Record<Name, Value>>,
  name: Name | undefined,
  fallback: NoInfer<Value>,
): Value {
  return name !== undefined && Object.hasOwn(table, name) ? table[name] : fallback;
}

/** A duration of JSON, such as "1.500s", in milliseconds. */
export const readDuration = (text: string): number => Math.round(Number.parseFloat(text) * 1000);

/** A state of a call. */
export const readState = (state: CallStateJson | undefined): CallState =>
  translate(STATE_OF, state, "queued");

const FRACTION = /\.\d+/;

/** A moment, in whole milliseconds, rounded as in all of the SDK: the wire is finer. */
function readDate(at: string | undefined): Date | undefined {
  if (at === undefined) return undefined;
  const [fraction = "0"] = FRACTION.exec(at) ?? [];
  return new Date(Date.parse(at.replace(FRACTION, "")) + Math.round(Number(fraction) * 1000));
}

const parsed = (text: string | undefined): unknown =>
  text === undefined || text === "" ? undefined : JSON.parse(text);

const orNone = (text: string | undefined): string | undefined => (text === "" ? undefined : text);

/** A call, as the server tells it. */
export function readCall(call: CallJson): Call {
  const { id = "", key = "", turn, tool = "", namespace = "", attempt = 0, spent = 0 } = call;
  return {
    ...{ id, key, turn, tool, namespace, attempt, spent },
    executor: translate(EXECUTOR_OF, call.executor, "worker"),
    labels: { ...call.labels },
    state: readState(call.state),
    input: parsed(call.inputJson),
    inputJson: orNone(call.inputJson),
    result: parsed(call.resultJson),
    resultJson: orNone(call.resultJson),
    error: call.failure === undefined ? undefined : readFailure(call.failure),
    policy: readPolicy(call.policy ?? {}),
    progress: parsed(call.progressJson),
    worker: orNone(call.worker),
    attempts: (call.attempts ?? []).map((each) => ({
      number: each.number ?? 0,
      worker: each.worker ?? "",
      claimedAt: readDate(each.claimedAt),
      endedAt: readDate(each.endedAt),
      error: readFailure(each.failure ?? {}),
    })),
    openedAt: readDate(call.openedAt),
    claimedAt: readDate(call.claimedAt),
    endedAt: readDate(call.endedAt),
    readyAt: readDate(call.readyAt),
    attemptTimeoutAt: readDate(call.attemptTimeoutAt),
    totalTimeoutAt: readDate(call.totalTimeoutAt),
    deferTimeoutAt: readDate(call.deferTimeoutAt),
    traceparent: orNone(call.traceparent),
  };
}

function readFailure(failure: FailureJson): Failure {
  const { kind, message = "", dataJson, retryable = false, outcomeUnknown = false } = failure;
  return {
    kind: translate(KIND_OF, kind, "tool"),
    ...{ message, retryable, outcomeUnknown },
    data: parsed(dataJson),
    dataJson: orNone(dataJson),
  };
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

const written = (text: string): Duration => formatDuration(readDuration(text));

function readPolicy(json: PolicyJson): Policy {
  const { mode, maxAttempts, backoffInitial, backoffFactor, backoffMax } = json;
  const policy: Mutable<Policy> = {};
  const backoff: Mutable<NonNullable<Policy["backoff"]>> = {};
  if (mode !== undefined) policy.mode = translate(MODE_OF, mode, "retry");
  if (maxAttempts !== undefined) policy.maxAttempts = maxAttempts;
  if (backoffInitial !== undefined) backoff.initial = written(backoffInitial);
  if (backoffFactor !== undefined) backoff.factor = Number(backoffFactor);
  if (backoffMax !== undefined) backoff.max = written(backoffMax);
  if (Object.keys(backoff).length > 0) policy.backoff = backoff;
  for (const field of TIMEOUTS) {
    const limit = json[field];
    if (limit !== undefined) policy[field] = written(limit);
  }
  return policy;
}

const TIMEOUTS = [
  "heartbeatTimeout",
  "detachGrace",
  "attemptTimeout",
  "totalTimeout",
  "deferTimeout",
] as const satisfies readonly (keyof Policy)[];

/** A run, as the server tells it. */
export function readRun(run: RunJson): RunInfo {
  const { id = "", key, namespace = "", toolsetVersion = 0 } = run;
  const toolset = orNone(run.toolset);
  return {
    ...{ id, namespace, toolset, key: orNone(key) },
    toolsetVersion: toolset === undefined ? undefined : toolsetVersion,
    labels: { ...run.labels },
    state: translate(RUN_STATE_OF, run.state, "active"),
    createdAt: readDate(run.createdAt),
    expiresAt: readDate(run.expiresAt),
    endedAt: readDate(run.endedAt),
  };
}
