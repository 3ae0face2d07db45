import type { Executor } from "../core/call.js";
import type { PolicyPatch } from "../core/policy.js";
import type { Scope } from "../core/scope.js";
import type { Database } from "./database.js";
import type { Instant } from "./rows.js";
import { statement } from "./statement.js";

/** A tool as a toolset declares it. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema, as its text was written. */
  readonly inputSchemaJson: string;
  /** Null: any JSON is a result. */
  readonly outputSchemaJson: string | null;
  readonly policy: PolicyPatch;
  readonly executor: Executor;
}

/** One version of a toolset. */
export interface ToolsetRecord {
  readonly projectId: number;
  readonly id: string;
  /** From 1; one more whenever the tools change. */
  readonly version: number;
  readonly tools: readonly Tool[];
  /** When this version was made. */
  readonly createdAt: Instant;
}

interface ToolsetRow {
  readonly project_id: number;
  readonly id: string;
  readonly version: number;
  readonly tools: string;
  readonly created_at: Instant;
}

const COLUMNS = "v.project_id, v.id, v.version, v.tools, micros(v.created_at) AS created_at";

function toToolset(row: ToolsetRow): ToolsetRecord {
  return {
    projectId: row.project_id,
    id: row.id,
    version: row.version,
    // Only putToolset writes it.
    tools: JSON.parse(row.tools) as Tool[],
    createdAt: row.created_at,
  };
}

/** The fields in one order, whatever the order of the caller's, since the texts are compared. */
function toolsToJson(tools: readonly Tool[]): string {
  return JSON.stringify(
    tools.map(({ name, description, inputSchemaJson, outputSchemaJson, policy, executor }) => ({
      name,
      description,
      inputSchemaJson,
      outputSchemaJson,
      policy: Object.fromEntries(Object.entries(policy).sort(([a], [b]) => (a < b ? -1 : 1))),
      executor,
    })),
  );
}

const PLACE = statement(
  "toolset_place",
  "INSERT INTO toolsets (project_id, id, version) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING",
);

const LOCK = statement(
  "toolset_lock",
  `SELECT version, deleted_at IS NOT NULL AS deleted FROM toolsets
  WHERE project_id = $1 AND id = $2 FOR UPDATE`,
);

const GET = statement(
  "toolset_get",
  `SELECT ${COLUMNS} FROM toolsets t
  JOIN toolset_versions v ON v.project_id = t.project_id AND v.id = t.id AND v.version = coalesce($3, t.version)
  WHERE t.project_id = $1 AND t.id = $2 AND t.deleted_at IS NULL`,
);

const LOAD = statement(
  "toolset_load",
  `SELECT ${COLUMNS} FROM toolset_versions v WHERE v.project_id = $1 AND v.id = $2 AND v.version = $3`,
);

const ADD_VERSION = statement(
  "toolset_add_version",
  `INSERT INTO toolset_versions AS v (project_id, id, version, tools) VALUES ($1, $2, $3, $4)
  RETURNING ${COLUMNS}`,
);

const SET_VERSION = statement(
  "toolset_set_version",
  "UPDATE toolsets SET version = $3, deleted_at = NULL WHERE project_id = $1 AND id = $2",
);

/**
 * Stores a toolset. The same tools again give the same version and change nothing; other tools, the next
 * version. A deleted toolset is there again, and goes on counting.
 */
export async function putToolset(
  db: Database,
  scope: Scope,
  id: string,
  tools: readonly Tool[],
): Promise<{ readonly toolset: ToolsetRecord; readonly changed: boolean }> {
  const { projectId } = scope;
  const text = toolsToJson(tools);
  return db.transaction(async (tx) => {
    await tx.query(PLACE, [projectId, id]);
    const [locked] = await tx.query<{ version: number; deleted: boolean }>(LOCK, [projectId, id]);
    const version = locked?.version ?? 0;
    const [current] = await tx.query<ToolsetRow>(LOAD, [projectId, id, version]);
    if (current?.tools === text) {
      const revived = locked?.deleted === true;
      if (revived) await tx.query(SET_VERSION, [projectId, id, version]);
      return { toolset: toToolset(current), changed: revived };
    }
    const rows = await tx.query<ToolsetRow>(ADD_VERSION, [projectId, id, version + 1, text]);
    await tx.query(SET_VERSION, [projectId, id, version + 1]);
    const made = rows.map(toToolset)[0] ?? { projectId, id, version: version + 1, tools, createdAt: 0 };
    return { toolset: made, changed: true };
  });
}

/** A version of a toolset, or with null the current one; null where there is none, or it was deleted. */
export async function getToolset(
  db: Database,
  scope: Scope,
  id: string,
  version: number | null,
): Promise<ToolsetRecord | null> {
  const [row] = await db.query<ToolsetRow>(GET, [scope.projectId, id, version]);
  return row === undefined ? null : toToolset(row);
}

/** A version of a toolset, even a deleted one: the runs that pinned it go on. */
export async function loadToolset(
  db: Database,
  projectId: number,
  id: string,
  version: number,
): Promise<ToolsetRecord | null> {
  const [row] = await db.query<ToolsetRow>(LOAD, [projectId, id, version]);
  return row === undefined ? null : toToolset(row);
}

const LIST = statement(
  "toolset_list",
  `SELECT ${COLUMNS} FROM toolsets t
  JOIN toolset_versions v ON v.project_id = t.project_id AND v.id = t.id AND v.version = t.version
  WHERE t.project_id = $1 AND t.id > $2 AND t.deleted_at IS NULL
  ORDER BY t.id LIMIT $3`,
);

/** Lists toolsets by id, each in its current version; `next` is what `after` is for the page that follows. */
export async function listToolsets(
  db: Database,
  scope: Scope,
  page: { readonly limit: number; readonly after: string | null },
): Promise<{ readonly toolsets: ToolsetRecord[]; readonly next: string | null }> {
  const values = [scope.projectId, page.after ?? "", page.limit + 1];
  const rows = await db.query<ToolsetRow>(LIST, values);
  const toolsets = rows.slice(0, page.limit).map(toToolset);
  return { toolsets, next: rows.length > page.limit ? (toolsets.at(-1)?.id ?? null) : null };
}

const DELETE = statement(
  "toolset_delete",
  `UPDATE toolsets SET deleted_at = now() WHERE project_id = $1 AND id = $2 AND deleted_at IS NULL
  RETURNING version`,
);

/** Marks a toolset deleted: no new run gets it. False where there was none. */
export async function deleteToolset(db: Database, scope: Scope, id: string): Promise<boolean> {
  return (await db.query(DELETE, [scope.projectId, id])).length > 0;
}
