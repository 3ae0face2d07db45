import type { Failure as WireFailure, Settlement } from "@trunkline/proto/model";
import type { Answer as WireAnswer } from "@trunkline/proto/worker";
import { TrunklineError } from "../core/error.js";
import type { Answer, Failure, FailureKind } from "../core/failure.js";
import { checkJsonText, parseJsonText } from "../core/json-text.js";
import { LIMITS } from "../core/limits.js";
import { checkWellFormed } from "../core/name.js";
import { fromFailureKind } from "./convert-enum.js";
import { cutText } from "./convert-text.js";
import { missingField } from "./door-field.js";
import type { DeclaredTool } from "./toolset-catalog.js";

const PAYLOAD = { maxBytes: LIMITS.payloadBytes };
const FAILURE_DATA = { maxBytes: LIMITS.failureDataBytes };

/** What a failure from outside a claim may say of its kind: nothing. */
export const OUTSIDE_KINDS: ReadonlySet<FailureKind> = new Set(["tool"]);

/** What a worker may say of its own failure's kind. */
export const WORKER_KINDS: ReadonlySet<FailureKind> = new Set([
  "tool",
  "exception",
  "invalid_answer",
  "oversized",
]);

/** How much of a failure's message is kept beside what was wrong with its data. */
const KEPT_MESSAGE_BYTES = 4 * 1024;

/**
 * A failure, checked. A kind that is not among `allowedKinds` counts as `tool`; `outcome_unknown` is for the
 * server alone to say.
 *
 * @throws TrunklineError INVALID_FIELD, INVALID_JSON or LIMIT_EXCEEDED naming the field under `field`
 */
export function toFailure(
  message: WireFailure,
  field: string,
  allowedKinds: ReadonlySet<FailureKind>,
): Failure {
  checkWellFormed(message.message, `${field}.message`, LIMITS.failureMessageBytes);
  if (message.dataJson !== "") checkJsonText(message.dataJson, `${field}.data_json`, FAILURE_DATA);
  return asFailure(message, allowedKinds);
}

function asFailure(message: WireFailure, allowedKinds: ReadonlySet<FailureKind>): Failure {
  const kind = fromFailureKind(message.kind);
  return {
    kind: allowedKinds.has(kind) ? kind : "tool",
    message: message.message,
    dataJson: message.dataJson === "" ? null : message.dataJson,
    retryable: message.retryable,
    outcomeUnknown: false,
  };
}

/**
 * A result, checked: JSON text within its limits, and as the tool's output schema wants it.
 *
 * @throws TrunklineError INVALID_JSON, LIMIT_EXCEEDED or SCHEMA_VIOLATION naming `field`
 */
export function checkResult(resultJson: string, field: string, tool: DeclaredTool | undefined): void {
  const schema = tool?.output ?? null;
  if (schema === null) {
    checkJsonText(resultJson, field, PAYLOAD);
    return;
  }
  const fault = schema.check(parseJsonText(resultJson, field, PAYLOAD), field);
  if (fault === undefined) return;
  throw new TrunklineError("SCHEMA_VIOLATION", fault, { metadata: { field } });
}

/**
 * A settlement from outside a claim, checked.
 *
 * @param tool the call's tool, where its run has a toolset
 * @throws TrunklineError INVALID_FIELD, INVALID_JSON, LIMIT_EXCEEDED or SCHEMA_VIOLATION
 */
export function checkAnswer(
  settlement: Settlement | undefined,
  field: string,
  tool: DeclaredTool | undefined,
): Answer {
  const outcome = settlement?.outcome;
  switch (outcome?.case) {
    case "resultJson":
      checkResult(outcome.value, `${field}.result_json`, tool);
      return { type: "result", resultJson: outcome.value };
    case "failure":
      return { type: "failure", failure: toFailure(outcome.value, `${field}.failure`, OUTSIDE_KINDS) };
    case undefined:
      throw missingField(field, "is a result_json or a failure");
  }
}

/**
 * A worker's answer under its claim. Never throws: a malformed or oversized answer is turned into the failure
 * that its call ends with, because the work is done and a repeat would bring the same.
 *
 * @param tool the call's tool, where its run has a toolset
 */
export function checkWorkerAnswer(answer: WireAnswer, tool: DeclaredTool | undefined): Answer {
  const { outcome } = answer;
  switch (outcome.case) {
    case "resultJson":
      try {
        checkResult(outcome.value, "result", tool);
        return { type: "result", resultJson: outcome.value };
      } catch (error) {
        return badAnswer(error, "");
      }
    case "failure":
      return checkWorkerFailure(outcome.value);
    case undefined:
      return badAnswer(missingField("answer", "is a result_json or a failure"), "");
  }
}

function checkWorkerFailure(given: WireFailure): Answer {
  const failure = {
    ...asFailure(given, WORKER_KINDS),
    message: cutText(given.message, LIMITS.failureMessageBytes),
  };
  if (failure.dataJson === null) return { type: "failure", failure };
  try {
    checkJsonText(failure.dataJson, "failure.data_json", FAILURE_DATA);
    return { type: "failure", failure };
  } catch (error) {
    return badAnswer(error, ` (of the failure: ${cutText(given.message, KEPT_MESSAGE_BYTES)})`);
  }
}

/** What a call ends with whose answer was refused: final, since the answer will not get better. */
function badAnswer(error: unknown, suffix: string): Answer {
  if (!(error instanceof TrunklineError)) throw error;
  const oversized = error.reason === "LIMIT_EXCEEDED" && error.metadata["limit"] === "bytes";
  return {
    type: "failure",
    failure: {
      kind: oversized ? "oversized" : "invalid_answer",
      message: cutText(`the answer was refused: ${error.message}${suffix}`, LIMITS.failureMessageBytes),
      dataJson: null,
      retryable: false,
      outcomeUnknown: false,
    },
  };
}
