import { SESSION_START, type Agent } from "./agent.js";
import { flag, onlyFields, refuseArgument } from "./argument.js";
import type { Trigger } from "./decision-trigger.js";
import { HostToolError, TrunklineError } from "./errors.js";
import { InvalidAnswerError } from "./failure.js";
import { typeOf } from "./text.js";

/** What the worker would do by itself: the default agent, or the tool's handler. Return it to have that done. */
export interface Proposed {
  readonly type: "proposed";
}

/** Ends the call with a result. */
export interface ToolResult {
  readonly type: "tool.result";
  /** The call; it can only be the one that was asked about. */
  readonly id?: string;
  /** Likewise. */
  readonly attempt?: number;
  /** Anything that JSON can carry. Default null. */
  readonly result?: unknown;
}

/** Ends the call, or this attempt of it, with an error. */
export interface ToolFailure {
  readonly type: "tool.error";
  /** The call; it can only be the one that was asked about. */
  readonly id?: string;
  /** Likewise. */
  readonly attempt?: number;
  /** What went wrong: a message, or a message with data. */
  readonly error: string | { readonly message: string; readonly data?: unknown };
  /** Whether another attempt makes sense. Under the policy `retry` it is made. Default false. */
  readonly retryable?: boolean;
}

/** Answers `session.start`. */
export interface SessionAgent {
  readonly agent: Agent;
}

/** One item of a {@link Decision}. */
export type DecisionItem = SessionAgent | ToolResult | ToolFailure | Proposed;

/**
 * What is decided: one item, alone or in an array, or nothing, such as `{}`. Then the call stays open, without a worker
 * and without heartbeats, for as long as its policy allows, until it is settled by its id.
 */
export type Decision =
  DecisionItem | readonly DecisionItem[] | Readonly<Record<string, never>> | null | undefined;

/** A decision, as read. */
export type Decided =
  | { readonly kind: "open" | "proposed" }
  | { readonly kind: "result"; readonly result: unknown }
  | { readonly kind: "error"; readonly error: HostToolError };

const RESULT_FIELDS = { type: true, id: true, attempt: true, result: true } as const;
const ERROR_FIELDS = { type: true, id: true, attempt: true, error: true, retryable: true } as const;
const ALLOWED = "allowed are tool.result, tool.error, what was proposed, and {} for a call that stays open";

/**
 * Reads what `decide` has returned.
 *
 * @throws InvalidAnswerError for anything that is no decision about this trigger
 */
export function readDecision(returned: unknown, trigger: Trigger): Decided {
  return inDecide(() => {
    if (returned === undefined || returned === null) return { kind: "open" };
    if (!Array.isArray(returned)) return readItem(returned, trigger);
    const items: readonly unknown[] = returned;
    if (items.length === 0) return { kind: "open" };
    if (items.length > 1) {
      throw refuseArgument(
        "it",
        `${items.length} items`,
        "allowed is one, about the call that was asked for",
      );
    }
    return readItem(items[0], trigger);
  });
}

/**
 * Does what may refuse a decision; the refusal says where it comes from.
 *
 * @throws InvalidAnswerError
 */
export function inDecide<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof TrunklineError)) throw error;
    throw new InvalidAnswerError(`decide returned what is no decision: ${error.message}`, error);
  }
}

function readItem(given: unknown, trigger: Trigger): Decided {
  if (typeof given !== "object" || given === null) {
    throw refuseArgument("it", `${typeOf(given)} is not an object`, ALLOWED);
  }
  if (isEmpty(given)) return { kind: "open" };
  const type: unknown = "type" in given ? given.type : undefined;
  switch (type) {
    case "proposed":
      return { kind: "proposed" };
    case "tool.result":
      onlyFields(given, RESULT_FIELDS, type);
      checkCall(given, trigger);
      return {
        kind: "result",
        result: "result" in given && given.result !== undefined ? given.result : null,
      };
    case "tool.error":
      onlyFields(given, ERROR_FIELDS, type);
      checkCall(given, trigger);
      return { kind: "error", error: readError(given) };
    case undefined:
      if ("agent" in given && trigger.type === SESSION_START) {
        return { kind: "result", result: given };
      }
  }
  const seen = type === undefined ? `fields ${Object.keys(given).join(", ")}` : `type ${shown(type)}`;
  throw refuseArgument(
    "it",
    seen,
    trigger.type === SESSION_START ? `allowed are { agent }; ${ALLOWED}` : ALLOWED,
  );
}

/** An object without fields, and no other thing whose content is not in fields, such as an Error. */
function isEmpty(given: object): boolean {
  if (Object.keys(given).length > 0) return false;
  const prototype: unknown = Object.getPrototypeOf(given);
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return true;
  throw refuseArgument("it", "an object that is not plain, without fields", ALLOWED);
}

function checkCall(given: { id?: unknown; attempt?: unknown }, { id, attempt }: Trigger): void {
  if (given.id !== undefined && given.id !== id) {
    throw refuseArgument(
      "id",
      shown(given.id),
      `allowed is ${shown(id)}, the call that was asked about, or none`,
    );
  }
  if (given.attempt !== undefined && given.attempt !== attempt) {
    throw refuseArgument("attempt", shown(given.attempt), `allowed is ${attempt}, this attempt, or none`);
  }
}

function readError(given: { error?: unknown; retryable?: unknown }): HostToolError {
  const { error, retryable = false } = given;
  const said = typeof error === "string" ? { message: error } : error;
  if (typeof said !== "object" || said === null) {
    throw refuseArgument("error", typeOf(error), "allowed is a message, or { message, data }");
  }
  onlyFields(said, { message: true, data: true }, "error");
  const { message, data }: { message?: unknown; data?: unknown } = said;
  if (typeof message !== "string") throw refuseArgument("error.message", typeOf(message), "allowed is text");
  // What comes from JavaScript may be anything; `flag` looks.
  return new HostToolError(message, { data, retryable: flag(retryable as boolean, "retryable") });
}

function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 100));
  return typeof value === "number" ? String(value) : typeOf(value);
}
