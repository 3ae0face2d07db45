import type { ServiceImpl } from "@connectrpc/connect";
import type {
  GetToolsetResponse,
  ListToolsetsRequest,
  ListToolsetsResponse,
  PutToolsetRequest,
  PutToolsetResponse,
  Tool as WireTool,
  Toolset as WireToolset,
  ToolsetService,
} from "@trunkline/proto/toolset";
import { TrunklineError } from "../core/error.js";
import { byteLength, quoted } from "../core/json-text.js";
import { LIMITS } from "../core/limits.js";
import { checkName, checkToolName, checkWellFormed } from "../core/name.js";
import type { Scope } from "../core/scope.js";
import {
  deleteToolset,
  getToolset as readToolset,
  listToolsets as readToolsets,
  putToolset as storeToolset,
  type Tool,
  type ToolsetRecord,
} from "../store/toolsets.js";
import { scopeOf } from "./auth.js";
import { toTimestamp } from "./convert.js";
import { fromExecutor, toExecutor } from "./convert-enum.js";
import { toPolicyMessage, toPolicyPatch } from "./convert-policy.js";
import type { ServiceDeps } from "./deps.js";
import { checkCount, under } from "./door-field.js";
import {
  fromPageToken,
  listName,
  PAGE_PAYLOAD_BYTES,
  pageItems,
  readName,
  toPageToken,
} from "./page-token.js";
import { DeclaredTool } from "./toolset-catalog.js";

const MAX_VERSION = 2 ** 31 - 1;
/** What a tool takes beside its texts, roughly. */
const ROUGH_BYTES = 256;
/** The first read of a list, of sizes that nobody knows yet. */
const FIRST_READ = 4;

/** ToolsetService. */
export function toolsetService(deps: ServiceDeps): ServiceImpl<typeof ToolsetService> {
  return {
    putToolset: (request, context) => putToolset(deps, scopeOf(context), request),
    getToolset: ({ id, version }, context) => getToolset(deps, scopeOf(context), id, version),
    listToolsets: (request, context) => listToolsets(deps, scopeOf(context), request),
    deleteToolset: async ({ id }, context) => {
      checkName(id, "id");
      if (!(await deleteToolset(deps.exchange.db, scopeOf(context), id))) throw noToolset(id);
      return {};
    },
  };
}

async function putToolset(
  { exchange }: ServiceDeps,
  scope: Scope,
  { id, tools }: PutToolsetRequest,
): Promise<PutToolsetResponse> {
  checkName(id, "id");
  checkCount(tools.length, "tools", LIMITS.toolsPerToolset);
  const places = new Map<string, number>();
  const checked = tools.map((tool, index) => {
    const field = `tools[${String(index)}]`;
    const earlier = places.get(tool.name);
    if (earlier !== undefined) {
      throw new TrunklineError(
        "INVALID_FIELD",
        `${field}.name is ${quoted(tool.name)}, as is that of tools[${String(earlier)}]; allowed are distinct names`,
        { metadata: { field: `${field}.name` } },
      );
    }
    places.set(tool.name, index);
    return checkTool(tool, field, exchange.heartbeatIntervalMs);
  });
  const { toolset, changed } = await storeToolset(exchange.db, scope, id, checked);
  return { $typeName: "trunkline.v1.PutToolsetResponse", toolset: toToolsetMessage(toolset, false), changed };
}

/** The declaration of a tool, checked: its schemas compile and its policy holds together. */
function checkTool(tool: WireTool, field: string, heartbeatIntervalMs: number): Tool {
  checkToolName(tool.name, `${field}.name`);
  checkWellFormed(tool.description, `${field}.description`, LIMITS.toolDescriptionBytes);
  const checked: Tool = {
    name: tool.name,
    description: tool.description,
    inputSchemaJson: tool.inputSchemaJson,
    outputSchemaJson: tool.outputSchemaJson === "" ? null : tool.outputSchemaJson,
    policy: toPolicyPatch(tool.policy, `${field}.policy`),
    executor: fromExecutor(tool.executor, `${field}.executor`),
  };
  const declared = new DeclaredTool(checked, field);
  under(field, () => declared.policyFor(null, heartbeatIntervalMs));
  return checked;
}

async function getToolset(
  { exchange }: ServiceDeps,
  scope: Scope,
  id: string,
  version: number,
): Promise<GetToolsetResponse> {
  checkName(id, "id");
  const toolset =
    version > MAX_VERSION ? null : await readToolset(exchange.db, scope, id, version === 0 ? null : version);
  if (toolset === null) throw noToolset(id, version);
  return { $typeName: "trunkline.v1.GetToolsetResponse", toolset: toToolsetMessage(toolset, true) };
}

/** As many toolsets as are asked for, but no more than a client can receive. */
async function listToolsets(
  { exchange }: ServiceDeps,
  scope: Scope,
  request: ListToolsetsRequest,
): Promise<ListToolsetsResponse> {
  const limit = pageItems(request.pageSize);
  const list = listName("toolsets", [scope]);
  let after = fromPageToken(list, request.pageToken, readName);
  const toolsets: ToolsetRecord[] = [];
  let bytes = 0;
  for (let size = Math.min(FIRST_READ, limit); ; size = Math.min(size * 2, limit - toolsets.length)) {
    const page = await readToolsets(exchange.db, scope, { limit: size, after });
    for (const toolset of page.toolsets) {
      bytes += toolsetBytes(toolset);
      if (bytes > PAGE_PAYLOAD_BYTES && toolsets.length > 0) return toPage(toolsets, list, after);
      toolsets.push(toolset);
      after = toolset.id;
    }
    if (page.next === null) return toPage(toolsets, list, null);
    if (toolsets.length >= limit) return toPage(toolsets, list, after);
  }
}

function toolsetBytes({ tools }: ToolsetRecord): number {
  let bytes = ROUGH_BYTES;
  for (const { description, inputSchemaJson, outputSchemaJson } of tools) {
    bytes +=
      ROUGH_BYTES +
      byteLength(description) +
      byteLength(inputSchemaJson) +
      byteLength(outputSchemaJson ?? "");
  }
  return bytes;
}

function toPage(toolsets: readonly ToolsetRecord[], list: string, next: string | null): ListToolsetsResponse {
  return {
    $typeName: "trunkline.v1.ListToolsetsResponse",
    toolsets: toolsets.map((toolset) => toToolsetMessage(toolset, true)),
    nextPageToken: next === null ? "" : toPageToken(list, next),
  };
}

function toToolsetMessage({ id, version, tools, createdAt }: ToolsetRecord, withTools: boolean): WireToolset {
  return {
    $typeName: "trunkline.v1.Toolset",
    id,
    version,
    tools: withTools ? tools.map(toToolMessage) : [],
    createdAt: toTimestamp(createdAt),
  };
}

function toToolMessage(tool: Tool): WireTool {
  return {
    $typeName: "trunkline.v1.Tool",
    name: tool.name,
    description: tool.description,
    inputSchemaJson: tool.inputSchemaJson,
    outputSchemaJson: tool.outputSchemaJson ?? "",
    policy: toPolicyMessage(tool.policy),
    executor: toExecutor(tool.executor),
  };
}

function noToolset(id: string, version = 0): TrunklineError {
  const which = version === 0 ? quoted(id) : `${quoted(id)} version ${String(version)}`;
  return new TrunklineError("NOT_FOUND", `there is no toolset ${which}`, { metadata: { field: "id" } });
}
