import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { CallRef as WireRef } from "@trunkline/proto/call";
import {
  CallState as WireState,
  Executor as WireExecutor,
  type Call as WireCall,
  type Outcome as WireOutcome,
} from "@trunkline/proto/model";
import { oneOf } from "./argument.js";
import type { Failure } from "./errors.js";
import { policyFromWire, type Policy } from "./policy.js";
import { failureFromWire, translate } from "./problem.js";
import { present, wellFormed } from "./text.js";

/** Where a call is in its life; the last three are final. */
export type CallState = "queued" | "claimed" | "deferred" | "succeeded" | "failed" | "canceled";

/** Who executes a tool: a worker, or the harness's side (a browser, a person), which settles the call. */
export type Executor = "worker" | "client";

/** Names a call by its id, `{runId}/{seq}`, or by its run and its key in it. */
export type CallRef = string | { readonly run: string; readonly key: string };

interface OutcomeBase {
  readonly callId: string;
  readonly key: string;
  /** Undefined when the call belongs to no turn. */
  readonly turn: number | undefined;
  readonly tool: string;
  /** The number of the last claim; 0 when it was never claimed. */
  readonly attempt: number;
  readonly endedAt: Date | undefined;
}

/** How a call ended: with a result, or with an error. */
export type Outcome =
  | (OutcomeBase & {
      readonly state: "succeeded";
      /** Parsed: numbers as JavaScript has them. */
      readonly result: unknown;
      /** As it was answered, digit for digit. */
      readonly resultJson: string;
      readonly error: undefined;
    })
  | (OutcomeBase & {
      readonly state: "failed" | "canceled";
      readonly result: undefined;
      readonly resultJson: undefined;
      readonly error: Failure;
    });

/** One failed attempt of a call. */
export interface Attempt {
  /** From 1. */
  readonly number: number;
  /** The worker's name; empty for a client call. */
  readonly worker: string;
  readonly claimedAt: Date | undefined;
  readonly endedAt: Date | undefined;
  readonly error: Failure;
}

/** A call as it stands. Times are of the database's clock; undefined means that it has not happened. */
export interface Call {
  /** `{runId}/{seq}`: also the idempotency key. */
  readonly id: string;
  readonly key: string;
  readonly turn: number | undefined;
  readonly tool: string;
  readonly executor: Executor;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly state: CallState;
  /** The number of the last claim; 0 before the first. */
  readonly attempt: number;
  /** Claims that may have started. */
  readonly spent: number;
  /** Parsed; undefined when payloads were not asked for. */
  readonly input: unknown;
  readonly inputJson: string | undefined;
  /** Only when it succeeded, and payloads were asked for. */
  readonly result: unknown;
  readonly resultJson: string | undefined;
  /** Only when it failed or was canceled. */
  readonly error: Failure | undefined;
  /** As fixed when the call was opened, with its defaults. */
  readonly policy: Policy;
  /** The last progress that the worker reported, parsed. */
  readonly progress: unknown;
  /** The name of the worker that holds or held the last claim. */
  readonly worker: string | undefined;
  /** The last failed attempts, oldest first. */
  readonly attempts: readonly Attempt[];
  readonly openedAt: Date | undefined;
  readonly claimedAt: Date | undefined;
  readonly endedAt: Date | undefined;
  /** When a queued call's backoff passes. */
  readonly readyAt: Date | undefined;
  readonly attemptTimeoutAt: Date | undefined;
  readonly totalTimeoutAt: Date | undefined;
  readonly deferTimeoutAt: Date | undefined;
  readonly traceparent: string | undefined;
}

const STATE_OF: Record<WireState, CallState> = {
  // A state that this SDK does not know is at least not final.
  [WireState.UNSPECIFIED]: "queued",
  [WireState.QUEUED]: "queued",
  [WireState.CLAIMED]: "claimed",
  [WireState.DEFERRED]: "deferred",
  [WireState.SUCCEEDED]: "succeeded",
  [WireState.FAILED]: "failed",
  [WireState.CANCELED]: "canceled",
};

const WIRE_STATE_OF: Record<CallState, WireState> = {
  queued: WireState.QUEUED,
  claimed: WireState.CLAIMED,
  deferred: WireState.DEFERRED,
  succeeded: WireState.SUCCEEDED,
  failed: WireState.FAILED,
  canceled: WireState.CANCELED,
};

const EXECUTOR_OF: Record<WireExecutor, Executor> = {
  [WireExecutor.UNSPECIFIED]: "worker",
  [WireExecutor.WORKER]: "worker",
  [WireExecutor.CLIENT]: "client",
};

const WIRE_EXECUTOR_OF: Record<Executor, WireExecutor> = {
  worker: WireExecutor.WORKER,
  client: WireExecutor.CLIENT,
};

/** Every state of a call, in the order of its life. */
export const CALL_STATES: readonly CallState[] = [
  "queued",
  "claimed",
  "deferred",
  "succeeded",
  "failed",
  "canceled",
];

/**
 * A state as the wire names it.
 *
 * @throws TrunklineError INVALID_FIELD naming `field` for what is none
 */
export const stateToWire = (state: CallState, field: string): WireState => oneOf(WIRE_STATE_OF, state, field);

/** A state of the wire. */
export const stateFromWire = (state: WireState): CallState => translate(STATE_OF, state, "queued");

/**
 * An executor as the wire names it.
 *
 * @throws TrunklineError INVALID_FIELD naming `field` for what is none
 */
export const executorToWire = (executor: Executor, field: string): WireExecutor =>
  oneOf(WIRE_EXECUTOR_OF, executor, field);

/** An executor of the wire. */
export const executorFromWire = (executor: WireExecutor): Executor =>
  translate(EXECUTOR_OF, executor, "worker");

/**
 * A reference as the wire has it.
 *
 * @throws TrunklineError INVALID_FIELD for what is neither an id nor a run with a key
 */
export function refToWire(ref: CallRef): Pick<WireRef, "callId" | "runId" | "key"> {
  // What comes from JavaScript may be anything.
  const given: unknown = ref;
  if (typeof ref === "object" && given !== null) {
    const key = wellFormed(present(ref.key, "call.key"), "call.key");
    return { callId: "", runId: present(ref.run, "call.run"), key };
  }
  return { callId: present(given, "call"), runId: "", key: "" };
}

/** A moment of the wire. */
export const dateFromWire = (at: Timestamp | undefined): Date | undefined =>
  at === undefined ? undefined : timestampDate(at);

const parsed = (text: string): unknown => (text === "" ? undefined : JSON.parse(text));

const orNone = (text: string): string | undefined => (text === "" ? undefined : text);

/** How a call ended, as the server tells it. */
export function outcomeFromWire(outcome: WireOutcome): Outcome {
  const { callId, key, turn, tool, attempt, resultJson } = outcome;
  const endedAt = dateFromWire(outcome.endedAt);
  if (outcome.state === WireState.SUCCEEDED) {
    const result = parsed(resultJson);
    const error = undefined;
    return { callId, key, turn, tool, attempt, endedAt, state: "succeeded", result, resultJson, error };
  }
  const state = outcome.state === WireState.CANCELED ? "canceled" : "failed";
  const [result, error] = [undefined, failureFromWire(outcome.failure)];
  return { callId, key, turn, tool, attempt, endedAt, state, result, resultJson: undefined, error };
}

/** A call, as the server tells it. */
export function callFromWire(call: WireCall): Call {
  const { id, key, turn, tool, namespace, attempt, spent, failure } = call;
  return {
    ...{ id, key, turn, tool, namespace, attempt, spent },
    executor: executorFromWire(call.executor),
    labels: { ...call.labels },
    state: stateFromWire(call.state),
    input: parsed(call.inputJson),
    inputJson: orNone(call.inputJson),
    result: parsed(call.resultJson),
    resultJson: orNone(call.resultJson),
    error: failure === undefined ? undefined : failureFromWire(failure),
    policy: policyFromWire(call.policy),
    progress: parsed(call.progressJson),
    worker: orNone(call.worker),
    attempts: call.attempts.map(({ number, worker, claimedAt, endedAt, failure: error }) => ({
      ...{ number, worker, claimedAt: dateFromWire(claimedAt), endedAt: dateFromWire(endedAt) },
      error: failureFromWire(error),
    })),
    openedAt: dateFromWire(call.openedAt),
    claimedAt: dateFromWire(call.claimedAt),
    endedAt: dateFromWire(call.endedAt),
    readyAt: dateFromWire(call.readyAt),
    attemptTimeoutAt: dateFromWire(call.attemptTimeoutAt),
    totalTimeoutAt: dateFromWire(call.totalTimeoutAt),
    deferTimeoutAt: dateFromWire(call.deferTimeoutAt),
    traceparent: orNone(call.traceparent),
  };
}
