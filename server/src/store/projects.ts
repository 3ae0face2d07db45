import type { Database } from "./database.js";
import type { Instant } from "./rows.js";
import { statement } from "./statement.js";

/** A tenant of the server. */
export interface ProjectRecord {
  readonly id: number;
  readonly name: string;
  readonly createdAt: Instant;
}

interface ProjectRow {
  readonly id: number;
  readonly name: string;
  readonly created_at: Instant;
}

const COLUMNS = "id, name, micros(created_at) AS created_at";

const CREATE = statement(
  "project_create",
  "INSERT INTO projects (name) VALUES ($1) ON CONFLICT (name) DO NOTHING",
);
const FIND = statement("project_find", `SELECT ${COLUMNS} FROM projects WHERE name = $1`);
const LIST = statement(
  "project_list",
  `SELECT ${COLUMNS} FROM projects WHERE name > $1 ORDER BY name LIMIT $2`,
);

/** Makes a project, or finds the one of this name. */
export async function createProject(db: Database, name: string): Promise<ProjectRecord | null> {
  await db.query(CREATE, [name]);
  return findProject(db, name);
}

/** The project of this name; null where there is none. */
export async function findProject(db: Database, name: string): Promise<ProjectRecord | null> {
  const [row] = await db.query<ProjectRow>(FIND, [name]);
  return row === undefined ? null : toProject(row);
}

/** Projects by name, after `after`. */
export async function listProjects(db: Database, after: string, limit: number): Promise<ProjectRecord[]> {
  return (await db.query<ProjectRow>(LIST, [after, limit])).map(toProject);
}

function toProject({ id, name, created_at: createdAt }: ProjectRow): ProjectRecord {
  return { id, name, createdAt };
}
