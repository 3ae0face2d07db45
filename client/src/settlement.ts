import { flag, MAX_WHOLE, onlyFields, refuseArgument, whole } from "./argument.js";
import { toJson } from "./json.js";
import { LIMITS } from "./limits.js";
import { typeOf, wellFormed } from "./text.js";

/** What ends a call from outside its claim. */
export type Settlement =
  | {
      readonly type: "tool.result";
      /** Anything that JSON can carry. Default null. */
      readonly result?: unknown;
      /** The attempt that this settles. Default: the last one when `settle` is called. */
      readonly attempt?: number;
    }
  | {
      readonly type: "tool.error";
      /** What went wrong: a message, or a message with data. */
      readonly error: string | { readonly message: string; readonly data?: unknown };
      /** Whether another attempt makes sense. Under the policy `retry` it is made. Default false. */
      readonly retryable?: boolean;
      /** The attempt that this settles. Default: the last one when `settle` is called. */
      readonly attempt?: number;
    };

/** How a task failed. */
export interface TaskFailure {
  /** For people, and for the model. At most 8 KiB. */
  readonly message: string;
  /** Anything that JSON can carry, at most 64 KiB. */
  readonly data?: unknown;
  /** Whether another attempt makes sense. Under the policy `retry` it is made. Default false. */
  readonly retryable?: boolean;
}

/** A failure said from outside, as it is sent. */
export interface SaidFailure {
  readonly message: string;
  /** JSON text; empty: none. */
  readonly dataJson: string;
  readonly retryable: boolean;
}

/** What a settlement says, as it is sent: a result as JSON text, or a failure. */
export type SaidOutcome =
  | { readonly case: "resultJson"; readonly value: string }
  | { readonly case: "failure"; readonly value: SaidFailure };

const RESULT_FIELDS = { type: true, result: true, attempt: true } as const;
const ERROR_FIELDS = { type: true, error: true, retryable: true, attempt: true } as const;

/**
 * Reads a settlement that a caller gives.
 *
 * @throws TrunklineError INVALID_FIELD, INVALID_JSON, LIMIT_EXCEEDED for what cannot be sent as it is
 */
export function readSettlement(settlement: Settlement): SaidOutcome {
  // What comes from JavaScript may be anything.
  const given: unknown = settlement;
  if (typeof given !== "object" || given === null) {
    throw refuseArgument("settlement", `${typeOf(given)} is not an object`, "allowed is { type, … }");
  }
  const { attempt } = settlement;
  if (attempt !== undefined) whole(attempt, "attempt", 0, MAX_WHOLE);
  if (settlement.type === "tool.result") {
    onlyFields(settlement, RESULT_FIELDS, "settlement");
    const value = toJson(settlement.result === undefined ? null : settlement.result, "result");
    return { case: "resultJson", value };
  }
  // What comes from JavaScript may be anything.
  const { type }: { type: string } = settlement;
  if (type !== "tool.error") {
    throw refuseArgument("type", JSON.stringify(type), "allowed are tool.result, tool.error");
  }
  onlyFields(settlement, ERROR_FIELDS, "settlement");
  const { error, retryable = false } = settlement;
  const said = typeof error === "string" ? { message: error } : error;
  const shape: unknown = said;
  if (typeof shape !== "object" || shape === null) {
    throw refuseArgument("error", typeOf(shape), "allowed is a message, or { message, data }");
  }
  onlyFields(said, { message: true, data: true }, "error");
  return { case: "failure", value: readFailure({ ...said, retryable: flag(retryable, "retryable") }) };
}

/**
 * Reads a failure said from outside. Unlike a handler's, it is refused when it cannot be sent as it is: its
 * sender is there to hear it.
 *
 * @throws TrunklineError INVALID_FIELD, INVALID_JSON, LIMIT_EXCEEDED
 */
export function readFailure(failure: TaskFailure): SaidFailure {
  onlyFields(failure, { message: true, data: true, retryable: true }, "failure");
  const { message, data, retryable = false } = failure;
  return {
    message: wellFormed(message, "message"),
    dataJson: data === undefined ? "" : toJson(data, "data", LIMITS.failureDataBytes),
    retryable: flag(retryable, "retryable"),
  };
}
