import type { Executor } from "../core/call.js";
import { TrunklineError } from "../core/error.js";
import { resolvePolicy, type Policy, type PolicyPatch } from "../core/policy.js";
import type { KnownRun } from "../exchange/runs.js";
import type { Database } from "../store/database.js";
import { loadToolset, type Tool } from "../store/toolsets.js";
import { compileToolSchema, type ToolSchema } from "./tool-schema.js";

/** A tool as a pinned version of a toolset declares it, ready to check calls. */
export class DeclaredTool {
  readonly name: string;
  readonly executor: Executor;
  /** Null takes anything. */
  readonly input: ToolSchema | null;
  /** Null takes anything. */
  readonly output: ToolSchema | null;
  readonly #policy: PolicyPatch;
  #resolved: Policy | null = null;

  /** @throws TrunklineError SCHEMA_VIOLATION or INVALID_JSON for a schema that is refused; see `where`. */
  constructor(tool: Tool, where: string) {
    this.name = tool.name;
    this.executor = tool.executor;
    this.input = compile(tool.inputSchemaJson, `${where}.input_schema_json`);
    this.output = compile(tool.outputSchemaJson, `${where}.output_schema_json`);
    this.#policy = tool.policy;
  }

  /**
   * The policy of a call: its own fields, null when it sets none, over the tool's.
   *
   * @throws TrunklineError INVALID_FIELD
   */
  policyFor(call: PolicyPatch | null, heartbeatIntervalMs: number): Policy {
    if (call !== null) return resolvePolicy(this.#policy, call, heartbeatIntervalMs);
    this.#resolved ??= resolvePolicy(this.#policy, undefined, heartbeatIntervalMs);
    return this.#resolved;
  }
}

function compile(schemaJson: string | null, where: string): ToolSchema | null {
  return schemaJson === null || schemaJson === "" ? null : compileToolSchema(schemaJson, where);
}

/** The tools of a version of a toolset, by name. */
export type ToolTable = ReadonlyMap<string, DeclaredTool>;

/**
 * The tools that are declared, by name.
 *
 * @param where what the list is called in messages, as `tools`
 * @throws TrunklineError SCHEMA_VIOLATION or INVALID_JSON for a schema that is refused
 */
export function compileTools(tools: readonly Tool[], where: string): ToolTable {
  return new Map(
    tools.map((tool, index) => [tool.name, new DeclaredTool(tool, `${where}[${String(index)}]`)]),
  );
}

const KEPT_VERSIONS = 1_000;

/**
 * The toolset versions that runs have pinned, with their schemas compiled. A version never changes, so it is
 * kept until others push it out.
 */
export class ToolsetCatalog {
  readonly #db: Database;
  readonly #tables = new Map<string, ToolTable>();
  readonly #loading = new Map<string, Promise<ToolTable>>();

  constructor(db: Database) {
    this.#db = db;
  }

  /**
   * The tools of a run's pinned toolset: null where it has none, and at once where they are known here.
   *
   * @throws TrunklineError INTERNAL when the pinned version is missing or can no longer be compiled
   */
  tools({ record }: KnownRun): ToolTable | null | Promise<ToolTable> {
    const { projectId, toolset, toolsetVersion } = record;
    if (toolset === null || toolsetVersion === null) return null;
    const key = `${String(projectId)}:${String(toolsetVersion)}:${toolset}`;
    const table = this.#tables.get(key);
    if (table === undefined)
      return this.#loading.get(key) ?? this.#load(key, projectId, toolset, toolsetVersion);
    return table;
  }

  #load(key: string, projectId: number, id: string, version: number): Promise<ToolTable> {
    const load = this.#read(projectId, id, version)
      .then((table) => this.#keep(key, table))
      .finally(() => this.#loading.delete(key));
    this.#loading.set(key, load);
    return load;
  }

  async #read(projectId: number, id: string, version: number): Promise<ToolTable> {
    const toolset = await loadToolset(this.#db, projectId, id, version);
    const name = `toolset ${JSON.stringify(id)} version ${String(version)}`;
    if (toolset === null) throw new TrunklineError("INTERNAL", `${name}, which a run has pinned, is missing`);
    try {
      return compileTools(toolset.tools, "tools");
    } catch (cause) {
      // It was compiled when it was put: only another version of this server can have done so.
      throw new TrunklineError("INTERNAL", `${name}, which a run has pinned, cannot be read`, { cause });
    }
  }

  #keep(key: string, table: ToolTable): ToolTable {
    this.#tables.set(key, table);
    if (this.#tables.size > KEPT_VERSIONS) {
      const oldest = this.#tables.keys().next();
      if (oldest.done !== true) this.#tables.delete(oldest.value);
    }
    return table;
  }
}
