import type { CallRef, TokenHash } from "../core/call.js";
import type { Database } from "./database.js";
import { tokensFrom } from "./rows.js";
import { statement } from "./statement.js";

/** The tokens that a call was given, and whose it is. */
export interface CallTokens {
  readonly projectId: number;
  readonly tokens: readonly TokenHash[];
}

const TOKENS = statement(
  "call_tokens",
  `SELECT c.project_id, c.tokens FROM projects p
  CROSS JOIN LATERAL (
    SELECT project_id, tokens FROM calls WHERE project_id = p.id AND run_id = $1 AND seq = $2 OFFSET 0
  ) c`,
);

/**
 * The tokens of a call, for who shows a right to it that names no project; null where there is no such call. One
 * probe of the index for each project.
 */
export async function findTokens(
  db: Database,
  { runId, seq }: Omit<CallRef, "projectId">,
): Promise<CallTokens | null> {
  const [row] = await db.query<{ readonly project_id: number; readonly tokens: string | null }>(TOKENS, [
    runId,
    seq,
  ]);
  return row === undefined ? null : { projectId: row.project_id, tokens: tokensFrom(row.tokens) };
}
