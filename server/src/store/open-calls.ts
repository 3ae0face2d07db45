import type { Database } from "./database.js";
import { statement } from "./statement.js";

/** Open calls are in runs that are active, or that were just ended and are due. */
const COUNT = statement(
  "calls_count_open",
  `SELECT count(*)::integer AS open FROM (
    SELECT FROM runs r
    CROSS JOIN LATERAL (
      SELECT FROM calls c
      WHERE c.project_id = r.project_id AND c.run_id = r.id AND c.state IN ('queued', 'claimed', 'deferred')
      OFFSET 0
    ) c
    WHERE r.project_id = $1 AND r.state = 'active' LIMIT $2
  ) c`,
);

const COUNT_OF_NAMESPACE = statement(
  "calls_count_open_of_namespace",
  `SELECT count(*)::integer AS open FROM (
    SELECT FROM runs r
    CROSS JOIN LATERAL (
      SELECT FROM calls c
      WHERE c.project_id = r.project_id AND c.run_id = r.id AND c.state IN ('queued', 'claimed', 'deferred')
      OFFSET 0
    ) c
    WHERE r.project_id = $1 AND r.namespace = $3 AND r.state = 'active' LIMIT $2
  ) c`,
);

/** How many calls are open in the active runs of an end user, or of a whole project: at most `most` are counted. */
export async function countOpenCalls(
  db: Database,
  projectId: number,
  namespace: string | null,
  most: number,
): Promise<number> {
  const [row] =
    namespace === null
      ? await db.query<{ readonly open: number }>(COUNT, [projectId, most])
      : await db.query<{ readonly open: number }>(COUNT_OF_NAMESPACE, [projectId, most, namespace]);
  return row?.open ?? 0;
}
