/**
 * A conversation as models take it: a user's message, then the model's, each that calls tools followed by one message
 * with the results of all of them, in their order.
 *
 * @typedef {import("./transcript.mjs").ToolCall} ToolCall
 * @typedef {import("./transcript.mjs").ToolResult} ToolResult
 * @typedef {{ role: "user", text: string }} UserMessage
 * @typedef {{ role: "assistant", text: string, toolCalls: ToolCall[], native?: unknown }} AssistantMessage
 * @typedef {{ role: "tool", results: ToolResult[] }} ToolMessage
 * @typedef {UserMessage | AssistantMessage | ToolMessage} Message
 */

/**
 * The conversation that the records of a session are.
 *
 * @param {readonly import("./transcript.mjs").Stored[]} records
 * @returns {Message[]}
 */
export function messagesOf(records) {
  return records.flatMap(messagesIn);
}

/** @type {(record: import("./transcript.mjs").Stored) => Message[]} */
function messagesIn(record) {
  switch (record.type) {
    case "request":
      return [{ role: "user", text: record.text }];
    case "answer": {
      const { text, toolCalls, native } = record;
      return [{ role: "assistant", text, toolCalls, native }];
    }
    case "results":
      return [{ role: "tool", results: record.results }];
    case "run":
      return [];
  }
}
