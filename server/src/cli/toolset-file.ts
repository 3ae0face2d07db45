import type { ToolDeclaration, ToolDeclarations } from "@trunkline/sdk";
import { TrunklineError } from "../core/error.js";
import { parseJsonText, quoted } from "../core/json-text.js";
import { LIMITS } from "../core/limits.js";

/** What a toolset's file says. */
export interface ToolsetFile {
  /** Undefined when the file leaves it to the command line. */
  readonly id: string | undefined;
  readonly tools: ToolDeclarations;
}

const FILE_FIELDS = ["id", "tools"];
const EXECUTORS: readonly unknown[] = [undefined, "worker", "client"];
const SHAPE =
  'allowed: {"id": "…", "tools": {"NAME": {"description": "…", "input": {schema}, "output": {schema}, ' +
  '"policy": {…}, "executor": "worker"}}}';

type Fields = Readonly<Record<string, unknown>>;

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function refuse(what: string): TrunklineError {
  return new TrunklineError("INVALID_FIELD", `${what}; ${SHAPE}`);
}

/**
 * Reads a toolset's file: `{"id": "…", "tools": {"name": {…}}}`, with tools as the SDK's
 * `toolsets.put` takes them. Schemas and policies are left to the SDK and the server.
 *
 * @param source where the text is from, for the message
 * @throws TrunklineError INVALID_JSON, INVALID_FIELD
 */
export function parseToolsetFile(text: string, source: string): ToolsetFile {
  const file = parseJsonText(text, source, { maxBytes: LIMITS.frameBytes, maxDepth: LIMITS.jsonDepth });
  if (!isFields(file)) throw refuse(`${source}: is not a JSON object`);
  const unknown = Object.keys(file).find((name) => !FILE_FIELDS.includes(name));
  if (unknown !== undefined) throw refuse(`${source}: has a field ${quoted(unknown)}`);
  const { id, tools } = file;
  if (id !== undefined && typeof id !== "string") throw refuse(`${source}: "id" is not a string`);
  if (!isFields(tools)) throw refuse(`${source}: "tools" is not an object of tools by name`);
  for (const [name, tool] of Object.entries(tools)) checkTool(tool, `${source}: tool ${quoted(name)}`);
  return { id, tools: tools as Record<string, ToolDeclaration> }; // checked in the loop above
}

function checkTool(tool: unknown, what: string): void {
  if (!isFields(tool)) throw refuse(`${what} is not an object`);
  if (typeof tool["description"] !== "string") throw refuse(`${what} has no "description" that is a string`);
  if (!EXECUTORS.includes(tool["executor"])) throw refuse(`${what} has an "executor" that does not exist`);
  const { policy } = tool;
  if (policy !== undefined && !isFields(policy)) throw refuse(`${what} has a "policy" that is not an object`);
}
