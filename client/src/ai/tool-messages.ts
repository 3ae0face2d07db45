import { refuseArgument } from "../argument.js";
import type { Outcome } from "../call.js";
import type { Failure } from "../errors.js";
import type { RefusedCall } from "../turn-batch.js";
import { isOurs, type AiToolCall } from "./tool-calls.js";

/** How a tool call ended: as its call did, or refused, so that there was none. */
export type ToolCallEnd = Outcome | RefusedCall;

/** What JSON carries. */
export type AiJsonValue = null | string | number | boolean | AiJsonValue[] | { [key: string]: AiJsonValue };

/** What a model is told of a tool call. */
export type AiToolOutput =
  | { type: "text"; value: string }
  | { type: "json"; value: AiJsonValue }
  | { type: "error-text"; value: string }
  | { type: "error-json"; value: AiJsonValue };

/** The result of one tool call. */
export interface AiToolResult {
  type: "tool-result";
  toolCallId: string;
  toolName: string;
  output: AiToolOutput;
}

/** A message with the results of tool calls: a `ToolModelMessage` of the AI SDK. */
export interface AiToolMessage {
  role: "tool";
  content: AiToolResult[];
}

/**
 * The message that answers a model's tool calls: one result for each, in their order, under the model's own id and
 * name. It goes after the messages with the calls; no message when there is nothing to answer. A text is given as
 * `text`, any other result as `json` (as text, digit for digit, when its numbers have more digits than JavaScript's),
 * and whatever is no result as `error-text`, or `error-json` with the tool's data.
 *
 * Left out are calls that the AI SDK calls invalid, or that the provider has executed: `response.messages` has their
 * results.
 *
 * @param ends what `settled` of the opened calls gave, or `turn.settled`
 * @throws TrunklineError INVALID_FIELD for a tool call without an end: a transcript must not show half a turn
 */
export function toolMessages(
  toolCalls: readonly AiToolCall[],
  ends: readonly ToolCallEnd[],
): AiToolMessage[] {
  const endOf = new Map(ends.map((end) => [end.key, end]));
  const content = toolCalls.filter(isOurs).map(({ toolCallId, toolName }): AiToolResult => {
    const end = endOf.get(toolCallId);
    if (end === undefined) {
      const seen = `none has the key ${JSON.stringify(toolCallId)}, of a call of ${toolName}`;
      throw refuseArgument("ends", seen, "allowed is one for every tool call");
    }
    return { type: "tool-result", toolCallId, toolName, output: outputOf(end) };
  });
  return content.length === 0 ? [] : [{ role: "tool", content }];
}

function outputOf(end: ToolCallEnd): AiToolOutput {
  if (!("state" in end)) return { type: "error-text", value: end.error.message };
  if (end.state !== "succeeded") return failed(end.error);
  if (typeof end.result === "string") return { type: "text", value: end.result };
  if (!isExact(end.resultJson)) return { type: "text", value: end.resultJson };
  return { type: "json", value: fromJson(end.result) };
}

function failed({ kind, message, data }: Failure): AiToolOutput {
  // A tool speaks for itself; who else ended the call, and how, is said.
  const words = kind === "tool" ? message : `${kind}: ${message}`;
  if (data === undefined) return { type: "error-text", value: words };
  return { type: "error-json", value: { message: words, data: fromJson(data) } };
}

/** What was parsed is what JSON carries. */
const fromJson = (parsed: unknown): AiJsonValue => parsed as AiJsonValue;

const TEXTS = /"[^"\\]*(?:\\.[^"\\]*)*"/g;
const NUMBERS = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Digits that a number of JavaScript always keeps. */
const KEPT_DIGITS = 15;

/** Whether the numbers of a JSON text survive being numbers of JavaScript. */
function isExact(json: string): boolean {
  const numbers = json.replace(TEXTS, "").match(NUMBERS) ?? [];
  return numbers.every((number) => {
    const digits = number
      .replace(/[eE].*/, "")
      .replace(/\D/g, "")
      .replace(/^0+/, "");
    return (digits.length <= KEPT_DIGITS || String(Number(number)) === number) && isFinite(Number(number));
  });
}
