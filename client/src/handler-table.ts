import { refuseArgument } from "./argument.js";
import type { ToolHandler } from "./handler.js";
import { typeOf } from "./text.js";

const MAX_TOOLS = 1_000;
const TOOL_NAME = /^[A-Za-z0-9_.-]{1,128}$/;
const ALLOWED_TOOLS = "allowed is one handler or more, by tool name";

/**
 * Handlers by the names of their tools.
 *
 * @throws TrunklineError INVALID_FIELD for what is no handler, and a name that cannot be a tool's
 */
export function checkHandlers(tools: Readonly<Record<string, ToolHandler>>): Map<string, ToolHandler> {
  // What comes from JavaScript may be anything.
  const given: unknown = tools;
  if (typeof given !== "object" || given === null)
    throw refuseArgument("tools", "they are missing", ALLOWED_TOOLS);
  const handlers = new Map(Object.entries(tools));
  checkNumber(handlers.size);
  for (const [tool, handler] of handlers) {
    if (!TOOL_NAME.test(tool)) {
      throw refuseArgument(
        "tools",
        JSON.stringify(tool),
        "allowed are names of 1 to 128 of A-Z a-z 0-9 _ . -",
      );
    }
    const type: string = typeof handler;
    if (type !== "function") throw refuseArgument(`tools.${tool}`, typeOf(handler), "allowed is a function");
  }
  return handlers;
}

/**
 * Adds handlers of further tools, all or none; says how many.
 *
 * @throws TrunklineError INVALID_FIELD as {@link checkHandlers} does, and for a tool that has a handler
 */
export function addHandlers(
  handlers: Map<string, ToolHandler>,
  tools: Readonly<Record<string, ToolHandler>>,
): number {
  const added = checkHandlers(tools);
  for (const tool of added.keys()) {
    if (handlers.has(tool))
      throw refuseArgument(`tools.${tool}`, "it has a handler", "allowed are further tools");
  }
  checkNumber(handlers.size + added.size);
  for (const [tool, handler] of added) handlers.set(tool, handler);
  return added.size;
}

function checkNumber(tools: number): void {
  if (tools > MAX_TOOLS) throw refuseArgument("tools", String(tools), `allowed are at most ${MAX_TOOLS}`);
}
