export { aiTools, type AiTool, type AiToolName, type AiTools } from "./ai-tools.js";
export { openToolCalls, type AiToolCall, type OpenedToolCalls, type ToolCallOptions } from "./tool-calls.js";
export {
  toolMessages,
  type AiJsonValue,
  type AiToolMessage,
  type AiToolOutput,
  type AiToolResult,
  type ToolCallEnd,
} from "./tool-messages.js";
