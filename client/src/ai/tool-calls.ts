import type { CallHandle } from "../call-handle.js";
import { type Reason } from "../errors.js";
import { ordered } from "../ordered-json.js";
import type { OpenOptions } from "../run.js";
import { present } from "../text.js";
import type { ToolDeclarations } from "../toolsets.js";
import { BatchError, type BatchCall, type RefusedCall } from "../turn-batch.js";
import type { SettledOptions, Turn } from "../turn.js";
import { aiNames } from "./ai-tools.js";
import type { ToolCallEnd } from "./tool-messages.js";

/** A tool call of a model, as the AI SDK tells it (`result.toolCalls`, or the parts of an assistant message). */
export interface AiToolCall {
  readonly toolCallId: string;
  /** As the model knows it. */
  readonly toolName: string;
  readonly input: unknown;
  /** The AI SDK could not read it, and has answered the model by itself, in `response.messages`. */
  readonly invalid?: boolean | undefined;
  /** The provider has executed it. */
  readonly providerExecuted?: boolean | undefined;
}

/** For all calls of a turn: as in `turn.open`. */
export type ToolCallOptions = Omit<OpenOptions, "turn" | "key">;

/** The tool calls of a model decision, opened. */
export interface OpenedToolCalls {
  /** Those that are open, in the order of the tool calls. */
  readonly handles: readonly CallHandle[];
  /** Those that the model got wrong, so that no call was opened. */
  readonly refused: readonly RefusedCall[];
  /** How all of them ended, the refused ones too: for `toolMessages`. Waits as `turn.settled` does. */
  readonly settled: (options?: SettledOptions) => Promise<ToolCallEnd[]>;
}

/** Refusals that are the model's fault, which it can mend when it is told. */
const MODELS_FAULT: ReadonlySet<Reason> = new Set<Reason>([
  "SCHEMA_VIOLATION",
  "TOOL_UNKNOWN",
  "INVALID_JSON",
  "LIMIT_EXCEEDED",
]);

/** What a call has of the model: the tool's name and the id, as the server and as this SDK call them. */
const MODELS_FIELDS: ReadonlySet<string | undefined> = new Set(["call.tool", "tool", "call.key", "key"]);

/** Whether it is for us to answer. */
export const isOurs = ({ invalid, providerExecuted }: AiToolCall): boolean =>
  invalid !== true && providerExecuted !== true;

/**
 * Opens a model's tool calls in a turn, all at once, each under the model's own id of it: opening them again, after a
 * crash and from another process, opens no second call. Store the model's answer first, then open, then wait:
 *
 * ```ts
 * const { toolCalls, response } = await generateText({ model, messages, tools: aiTools(crm) });
 * messages.push(...response.messages); // store them, and the tool calls, here
 * const opened = await openToolCalls(run.turn(step), toolCalls, crm);
 * messages.push(...toolMessages(toolCalls, await opened.settled()));
 * ```
 *
 * Calls that the model got wrong (an input that the tool's schema refuses, a tool that is not there, a name that cannot
 * be a tool's) are not opened, and told of in `refused`. Those that the AI SDK calls invalid, or that the provider has
 * executed, are left out: they have been answered.
 *
 * @param toolset the one that `aiTools` was given
 * @throws BatchError when calls were refused for another reason; RUN_ENDED, KEY_REUSED for an id that an earlier call of
 *   the run had
 * @throws TrunklineError INVALID_FIELD for a tool call without an id: opened again, it would be another call
 */
export async function openToolCalls(
  turn: Pick<Turn, "openAll" | "settled">,
  toolCalls: readonly AiToolCall[],
  toolset: { readonly declarations: ToolDeclarations },
  options: ToolCallOptions = {},
): Promise<OpenedToolCalls> {
  const names = aiNames(toolset.declarations);
  const calls = toolCalls.filter(isOurs).map(({ toolCallId, toolName, input }): BatchCall => ({
    ...options,
    tool: names.get(toolName) ?? toolName,
    // A transcript that was stored may come back with its keys in another order, which is another content.
    input: ordered(input),
    key: present(toolCallId, "toolCallId"),
  }));
  const { handles, refused } = await openAll(turn, calls);
  return {
    handles,
    refused,
    settled: async (waiting) => [...(handles.length === 0 ? [] : await turn.settled(waiting)), ...refused],
  };
}

async function openAll(
  turn: Pick<Turn, "openAll">,
  calls: readonly BatchCall[],
): Promise<Pick<OpenedToolCalls, "handles" | "refused">> {
  try {
    return { handles: await turn.openAll(calls), refused: [] };
  } catch (error) {
    if (!(error instanceof BatchError) || !error.refused.every(isModelsFault)) throw error;
    return { handles: error.opened.filter((handle) => handle !== undefined), refused: error.refused };
  }
}

function isModelsFault({ error }: RefusedCall): boolean {
  if (error.reason === "INVALID_FIELD") return MODELS_FIELDS.has(error.metadata["field"]);
  return MODELS_FAULT.has(error.reason);
}
