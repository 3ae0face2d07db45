import { isDeepStrictEqual } from "node:util";
import { messagesOf } from "./messages.mjs";

/**
 * What is known of a session.
 *
 * @typedef {object} Session
 * @property {readonly import("./transcript.mjs").Stored[]} records
 * @property {readonly import("@trunkline/sdk").Call[]} calls All of its run, with payloads.
 * @property {readonly Start[] | undefined} work What workers started, of any session; undefined: nobody wrote it down.
 * @property {readonly Asked[] | undefined} prompts What its model was asked, likewise.
 */

/** @typedef {{ callId: string, attempt: number, tool: string }} Start */
/** @typedef {{ engine: string, turn: number }} Asked */

/** @typedef {Extract<import("./transcript.mjs").Stored, { type: "answer" }>} StoredAnswer */

/**
 * Everything that is wrong with a finished session.
 *
 * @param {Session} session
 * @returns {string[]} For people; empty when it is as promised.
 */
export function faultsOf({ records, calls, work, prompts }) {
  return [
    ...faultsOfOrder(records),
    ...faultsOfConversation(messagesOf(records)),
    ...faultsOfCalls(records, calls),
    ...(work === undefined ? [] : faultsOfWork(calls, work)),
    ...(prompts === undefined ? [] : faultsOfPrompts(records, prompts)),
  ];
}

/**
 * The final answer of a session.
 *
 * @param {readonly import("./transcript.mjs").Stored[]} records
 * @returns {string | undefined}
 */
export function finalAnswer(records) {
  const last = records.at(-1);
  return last?.type === "answer" && last.toolCalls.length === 0 ? last.text : undefined;
}

/** A request, its run, then answers and results by turns, up to the final answer. */
function* faultsOfOrder(/** @type {readonly import("./transcript.mjs").Stored[]} */ records) {
  const types = records.map(({ type }) => type).join(" ");
  if (!/^request run (answer results )*answer$/.test(types)) yield `records in the order ${types}`;
  if (finalAnswer(records) === undefined) yield "no final answer";
  const turns = records.flatMap((record) => (record.type === "answer" ? [record.turn] : []));
  if (turns.some((turn, index) => turn !== index + 1)) yield `answers of the turns ${turns.join(", ")}`;
}

/** What providers demand: every message with tool calls is followed by the results of all of them, in order. */
function* faultsOfConversation(/** @type {readonly import("./messages.mjs").Message[]} */ messages) {
  const ids = new Set();
  for (const [index, message] of messages.entries()) {
    const before = messages[index - 1];
    const asked = before?.role === "assistant" ? before.toolCalls.map(({ id }) => id) : [];
    const answered = message.role === "tool" ? message.results.map(({ id }) => id) : [];
    if (!isDeepStrictEqual(asked, answered)) {
      yield `message ${index} (${message.role}) answers [${answered.join(", ")}] of [${asked.join(", ")}]`;
    }
    if (message.role !== "assistant") continue;
    for (const { id } of message.toolCalls) {
      if (ids.has(id)) yield `two tool calls with the id ${id}`;
      ids.add(id);
    }
  }
}

/**
 * The run has exactly the calls that the answers asked for, in their order, each ended as was recorded.
 *
 * @param {readonly import("./transcript.mjs").Stored[]} records
 * @param {readonly import("@trunkline/sdk").Call[]} calls
 */
function* faultsOfCalls(records, calls) {
  /** @type {Map<string, import("@trunkline/sdk").Call>} */
  const left = new Map();
  for (const call of calls) {
    if (left.has(call.key)) yield `two calls with the key ${call.key}`;
    left.set(call.key, call);
  }
  for (const { turn, toolCalls, results } of turnsOf(records)) {
    let latest = 0;
    for (const [index, toolCall] of toolCalls.entries()) {
      const result = results[index];
      const call = left.get(toolCall.key);
      left.delete(toolCall.key);
      if (result?.state === "refused") {
        if (call !== undefined) yield `${toolCall.key} was recorded as refused, and is call ${call.id}`;
        continue;
      }
      if (call === undefined) {
        yield `${toolCall.key} was never opened`;
        continue;
      }
      const seq = Number(call.id.split("/")[1]);
      if (seq < latest) yield `${toolCall.key} was opened out of order, as call ${call.id}`;
      latest = seq;
      yield* differences({ turn, toolCall, result, call });
    }
  }
  for (const { key, id } of left.values()) yield `call ${id} (${key}) was asked for by no answer`;
}

/**
 * @param {{ turn: number, toolCall: import("./transcript.mjs").ToolCall,
 *   result: import("./transcript.mjs").ToolResult | undefined, call: import("@trunkline/sdk").Call }} parts
 */
function* differences({ turn, toolCall, result, call }) {
  const asked = { turn, tool: toolCall.name, input: toolCall.input };
  const opened = { turn: call.turn, tool: call.tool, input: call.input };
  if (!isDeepStrictEqual(asked, opened)) yield `call ${call.id} is not what ${toolCall.key} asked for`;
  const ended = { state: call.state, said: call.resultJson ?? call.error?.message };
  const recorded =
    result === undefined
      ? undefined
      : {
          state: result.state,
          said: result.state === "succeeded" ? result.resultJson : result.error.message,
        };
  if (!isDeepStrictEqual(ended, recorded)) yield `call ${call.id} ended otherwise than was recorded`;
}

/**
 * Each answer with its results.
 *
 * @param {readonly import("./transcript.mjs").Stored[]} records
 */
function turnsOf(records) {
  return records.flatMap((record, index) => {
    const next = records[index + 1];
    if (record.type !== "answer") return [];
    return [{ ...record, results: next?.type === "results" ? next.results : [] }];
  });
}

/**
 * Handlers were started once per attempt, under the idempotency key of the call, and those of client tools never.
 *
 * @param {readonly import("@trunkline/sdk").Call[]} calls
 * @param {readonly Start[]} work
 */
function* faultsOfWork(calls, work) {
  for (const { id, tool, executor, state, attempt, spent } of calls) {
    const starts = work.filter(({ callId }) => callId === id);
    const attempts = starts.map((start) => start.attempt);
    if (new Set(attempts).size < attempts.length) yield `an attempt of call ${id} was started twice`;
    if (attempts.some((number) => number > attempt)) yield `call ${id} was started after its last attempt`;
    if (starts.some((start) => start.tool !== tool)) yield `call ${id} was started as another tool`;
    if (executor === "client" && starts.length > 0) yield `client call ${id} was started by a worker`;
    if (starts.length > spent) yield `call ${id} was started ${starts.length} times, with ${spent} spent`;
    const done = state === "succeeded" && executor === "worker";
    if (done && !attempts.includes(attempt))
      yield `call ${id} succeeded in an attempt that no worker started`;
  }
}

/**
 * The model was asked again only where its answer had not been recorded, and by an engine that came after.
 *
 * @param {readonly import("./transcript.mjs").Stored[]} records
 * @param {readonly Asked[]} prompts
 */
function* faultsOfPrompts(records, prompts) {
  for (const [index, { engine, turn }] of prompts.entries()) {
    const before = prompts[index - 1] ?? { engine: "", turn: 0 };
    const next = turn === before.turn + 1;
    const again = turn === before.turn && engine !== before.engine;
    if (!next && !again) yield `turn ${turn} was asked after turn ${before.turn}`;
  }
  for (const { turn, engine } of answersIn(records)) {
    const last = prompts.findLast((prompt) => prompt.turn === turn);
    if (last?.engine !== engine) yield `turn ${turn} was asked again although its answer was recorded`;
  }
}

/** @type {(records: readonly import("./transcript.mjs").Stored[]) => StoredAnswer[]} */
const answersIn = (records) => records.filter((record) => record.type === "answer");
