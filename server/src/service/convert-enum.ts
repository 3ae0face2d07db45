import {
  CallState as WireCallState,
  Executor as WireExecutor,
  FailureKind as WireFailureKind,
  PolicyMode as WirePolicyMode,
} from "@trunkline/proto/model";
import { RunState as WireRunState } from "@trunkline/proto/run";
import type { CallState, Executor } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import type { FailureKind } from "../core/failure.js";
import type { PolicyMode } from "../core/policy.js";

/** One of the two states of a run. */
export type RunState = "active" | "ended";

const TO_CALL_STATE: Readonly<Record<CallState, WireCallState>> = {
  queued: WireCallState.QUEUED,
  claimed: WireCallState.CLAIMED,
  deferred: WireCallState.DEFERRED,
  succeeded: WireCallState.SUCCEEDED,
  failed: WireCallState.FAILED,
  canceled: WireCallState.CANCELED,
};

const FROM_CALL_STATE: Readonly<Record<WireCallState, CallState | null>> = {
  [WireCallState.UNSPECIFIED]: null,
  [WireCallState.QUEUED]: "queued",
  [WireCallState.CLAIMED]: "claimed",
  [WireCallState.DEFERRED]: "deferred",
  [WireCallState.SUCCEEDED]: "succeeded",
  [WireCallState.FAILED]: "failed",
  [WireCallState.CANCELED]: "canceled",
};

const TO_RUN_STATE: Readonly<Record<RunState, WireRunState>> = {
  active: WireRunState.ACTIVE,
  ended: WireRunState.ENDED,
};

const FROM_RUN_STATE: Readonly<Record<WireRunState, RunState | null>> = {
  [WireRunState.UNSPECIFIED]: null,
  [WireRunState.ACTIVE]: "active",
  [WireRunState.ENDED]: "ended",
};

const TO_EXECUTOR: Readonly<Record<Executor, WireExecutor>> = {
  worker: WireExecutor.WORKER,
  client: WireExecutor.CLIENT,
};

const FROM_EXECUTOR: Readonly<Record<WireExecutor, Executor>> = {
  [WireExecutor.UNSPECIFIED]: "worker",
  [WireExecutor.WORKER]: "worker",
  [WireExecutor.CLIENT]: "client",
};

const TO_POLICY_MODE: Readonly<Record<PolicyMode, WirePolicyMode>> = {
  retry: WirePolicyMode.RETRY,
  at_most_once: WirePolicyMode.AT_MOST_ONCE,
};

const FROM_POLICY_MODE: Readonly<Record<WirePolicyMode, PolicyMode | null>> = {
  [WirePolicyMode.UNSPECIFIED]: null,
  [WirePolicyMode.RETRY]: "retry",
  [WirePolicyMode.AT_MOST_ONCE]: "at_most_once",
};

const TO_FAILURE_KIND: Readonly<Record<FailureKind, WireFailureKind>> = {
  tool: WireFailureKind.TOOL,
  exception: WireFailureKind.EXCEPTION,
  worker_lost: WireFailureKind.WORKER_LOST,
  attempt_timeout: WireFailureKind.ATTEMPT_TIMEOUT,
  total_timeout: WireFailureKind.TOTAL_TIMEOUT,
  defer_timeout: WireFailureKind.DEFER_TIMEOUT,
  canceled: WireFailureKind.CANCELED,
  invalid_answer: WireFailureKind.INVALID_ANSWER,
  oversized: WireFailureKind.OVERSIZED,
};

const FROM_FAILURE_KIND: Readonly<Record<WireFailureKind, FailureKind>> = {
  [WireFailureKind.UNSPECIFIED]: "tool",
  [WireFailureKind.TOOL]: "tool",
  [WireFailureKind.EXCEPTION]: "exception",
  [WireFailureKind.WORKER_LOST]: "worker_lost",
  [WireFailureKind.ATTEMPT_TIMEOUT]: "attempt_timeout",
  [WireFailureKind.TOTAL_TIMEOUT]: "total_timeout",
  [WireFailureKind.DEFER_TIMEOUT]: "defer_timeout",
  [WireFailureKind.CANCELED]: "canceled",
  [WireFailureKind.INVALID_ANSWER]: "invalid_answer",
  [WireFailureKind.OVERSIZED]: "oversized",
};

/** Looks a wire number up: undefined for one that this version does not know, which proto3 allows. */
function lookUp<K extends number, V>(table: Readonly<Record<K, V>>, value: K): V | undefined {
  return Object.hasOwn(table, value) ? table[value] : undefined;
}

function unknown(field: string, value: number, allowed: string): TrunklineError {
  return new TrunklineError("INVALID_FIELD", `${field} is ${String(value)}; allowed are ${allowed}`, {
    metadata: { field, value: String(value) },
  });
}

/** The wire's number of a call's state. */
export function toCallState(state: CallState): WireCallState {
  return TO_CALL_STATE[state];
}

/**
 * The state that a filter names.
 *
 * @throws TrunklineError INVALID_FIELD for none, or one that is not known.
 */
export function fromCallState(value: WireCallState, field: string): CallState {
  const state = lookUp(FROM_CALL_STATE, value);
  if (state === undefined || state === null) throw unknown(field, value, "the states of a call, 1 to 6");
  return state;
}

/** The wire's number of a run's state. */
export function toRunState(state: RunState): WireRunState {
  return TO_RUN_STATE[state];
}

/**
 * The state that a filter names, or null for any.
 *
 * @throws TrunklineError INVALID_FIELD for one that is not known.
 */
export function fromRunState(value: WireRunState, field: string): RunState | null {
  const state = lookUp(FROM_RUN_STATE, value);
  if (state === undefined) throw unknown(field, value, "0 for any, 1 for ACTIVE, 2 for ENDED");
  return state;
}

/** The wire's number of an executor. */
export function toExecutor(executor: Executor): WireExecutor {
  return TO_EXECUTOR[executor];
}

/**
 * Who executes a tool; a worker when nothing is said.
 *
 * @throws TrunklineError INVALID_FIELD for one that is not known.
 */
export function fromExecutor(value: WireExecutor, field: string): Executor {
  const executor = lookUp(FROM_EXECUTOR, value);
  if (executor === undefined) throw unknown(field, value, "0 or 1 for WORKER, 2 for CLIENT");
  return executor;
}

/** The wire's number of a policy's mode. */
export function toPolicyMode(mode: PolicyMode): WirePolicyMode {
  return TO_POLICY_MODE[mode];
}

/**
 * The mode that a policy sets, or null where it sets none.
 *
 * @throws TrunklineError INVALID_FIELD for one that is not known.
 */
export function fromPolicyMode(value: WirePolicyMode, field: string): PolicyMode | null {
  const mode = lookUp(FROM_POLICY_MODE, value);
  if (mode === undefined) throw unknown(field, value, "0 for none, 1 for RETRY, 2 for AT_MOST_ONCE");
  return mode;
}

/** The wire's number of a failure's kind. */
export function toFailureKind(kind: FailureKind): WireFailureKind {
  return TO_FAILURE_KIND[kind];
}

/** What a failure is; `tool` for one that is not known, as the contract has it. */
export function fromFailureKind(value: WireFailureKind): FailureKind {
  return lookUp(FROM_FAILURE_KIND, value) ?? "tool";
}
