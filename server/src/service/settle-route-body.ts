import { FailureKind } from "@trunkline/proto/model";
import { TrunklineError } from "../core/error.js";
import type { Answer } from "../core/failure.js";
import { jsonMembers } from "../core/json-members.js";
import { checkJsonText, quoted } from "../core/json-text.js";
import { LIMITS } from "../core/limits.js";
import { checkResult, OUTSIDE_KINDS, toFailure } from "./door-answer.js";
import { invalidField, missingField } from "./door-field.js";
import type { DeclaredTool } from "./toolset-catalog.js";

const BODY = "body";
/** A result as deep as allowed, and the object around it. */
const BODY_LIMITS = { maxBytes: LIMITS.frameBytes, maxDepth: LIMITS.jsonDepth + 1 };
const MAX_ATTEMPT = 2 ** 31 - 1;

const RESULT_MEMBERS = ["type", "id", "attempt", "result"];
const ERROR_MEMBERS = ["type", "id", "attempt", "error", "retryable"];
const FAILURE_MEMBERS = ["message", "data"];

/** The texts of an object's members, by their names. */
type Members = ReadonlyMap<string, string>;

/** What the body of a settlement says. */
export interface SettleBody {
  /** The call's id, or its key. */
  readonly id: string;
  /** Null for the last one. */
  readonly attempt: number | null;
  /**
   * The answer, checked; a result is the text that was sent.
   *
   * @param tool the call's tool, where its run has a toolset
   * @throws TrunklineError INVALID_FIELD, INVALID_JSON, LIMIT_EXCEEDED or SCHEMA_VIOLATION
   */
  readonly answer: (tool: DeclaredTool | undefined) => Answer;
}

/**
 * Reads `{ "type": "tool.result", "id", "attempt"?, "result"? }` or
 * `{ "type": "tool.error", "id", "attempt"?, "error", "retryable"? }`, whose `error` is a message or
 * `{ "message", "data"? }`. What is kept is cut out of the text: a parsed number would lose digits.
 *
 * @throws TrunklineError INVALID_FIELD, INVALID_JSON or LIMIT_EXCEEDED
 */
export function readSettleBody(bytes: Uint8Array): SettleBody {
  const text = decode(bytes);
  checkJsonText(text, BODY, BODY_LIMITS);
  const given = membersOf(text, BODY);
  if (given === undefined) throw invalidField(BODY, text, 'is an object such as {"type": "tool.result", …}');
  const type = readText(given, "type");
  const isResult = type === "tool.result";
  if (!isResult && type !== "tool.error") throw invalidField("type", type, "are tool.result, tool.error");
  refuseOthers(given, isResult ? RESULT_MEMBERS : ERROR_MEMBERS, `a ${type}`);
  const id = readText(given, "id");
  if (id === "") throw invalidField("id", id, "is the call's id, or its key");
  return { id, attempt: readAttempt(given), answer: isResult ? resultOf(given) : failureOf(given) };
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new TrunklineError("INVALID_JSON", `${BODY} is not UTF-8; allowed is one JSON value in UTF-8`, {
      cause,
      metadata: { field: BODY },
    });
  }
}

function resultOf(given: Members): SettleBody["answer"] {
  const resultJson = given.get("result") ?? "null";
  return (tool) => {
    checkResult(resultJson, "result", tool);
    return { type: "result", resultJson };
  };
}

function failureOf(given: Members): SettleBody["answer"] {
  const text = required(given, "error", "is a message, or an object with a message and data");
  const parts = membersOf(text, "error");
  if (parts !== undefined) refuseOthers(parts, FAILURE_MEMBERS, "an error");
  const message = parts === undefined ? readText(given, "error") : readText(parts, "message", "error.");
  const failure = {
    $typeName: "trunkline.v1.Failure",
    kind: FailureKind.TOOL,
    message,
    dataJson: parts?.get("data") ?? "",
    retryable: readFlag(given, "retryable"),
    outcomeUnknown: false,
  } as const;
  return () => ({ type: "failure", failure: toFailure(failure, "error", OUTSIDE_KINDS) });
}

/**
 * @returns undefined when the value is no object
 * @throws TrunklineError for a name that is there twice: readers do not agree on which one counts
 */
function membersOf(text: string, field: string): Members | undefined {
  const members = jsonMembers(text);
  if (members === undefined) return undefined;
  const byName = new Map<string, string>();
  for (const member of members) {
    if (byName.has(member.name)) throw twice(field, member.name);
    byName.set(member.name, member.text);
  }
  return byName;
}

function twice(field: string, name: string): TrunklineError {
  const message = `${field} has ${quoted(name)} twice; allowed is each name once`;
  return new TrunklineError("INVALID_FIELD", message, { metadata: { field } });
}

function refuseOthers(given: Members, allowed: readonly string[], what: string): void {
  const other = [...given.keys()].find((name) => !allowed.includes(name));
  if (other === undefined) return;
  throw new TrunklineError(
    "INVALID_FIELD",
    `${quoted(other)} is no member of ${what}; allowed are ${allowed.join(", ")}`,
    { metadata: { field: BODY } },
  );
}

function required(given: Members, name: string, allowed: string, under = ""): string {
  const text = given.get(name);
  if (text === undefined) throw missingField(under + name, allowed);
  return text;
}

function readText(given: Members, name: string, under = ""): string {
  const text = required(given, name, "is a string", under);
  const value: unknown = JSON.parse(text);
  if (typeof value !== "string") throw invalidField(under + name, text, "is a string");
  return value;
}

function readFlag(given: Members, name: string): boolean {
  const text = given.get(name) ?? "false";
  if (text !== "true" && text !== "false") throw invalidField(name, text, "are true, false");
  return text === "true";
}

function readAttempt(given: Members): number | null {
  const text = given.get("attempt") ?? "null";
  if (text === "null") return null;
  const value: unknown = JSON.parse(text);
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= MAX_ATTEMPT)
    return value;
  throw invalidField("attempt", text, `is a whole number from 0 to ${String(MAX_ATTEMPT)}`);
}
