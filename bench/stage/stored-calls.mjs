// Calls that are there already, put in by SQL so that millions of them take seconds.

const CALLS_PER_RUN = 1_000;

/** What differs from kind to kind; the rest every call has. */
const KINDS = {
  /** Results that were fetched long ago. */
  ended: {
    columns: "executor, state, attempt, spent, result, ended_at",
    values: `'worker', 'succeeded', 1, 1, '{"n":1}', now()`,
  },
  /** Wait for somebody's word, for a day at most. */
  deferred: {
    columns: "executor, state, attempt, spent, defer_timeout_at, due_at",
    values: `'client', 'deferred', 1, 1, now() + interval '1 day', now() + interval '1 day'`,
  },
  /** As the deferred ones, each alone in a turn of its own. */
  turn: {
    columns: "executor, state, attempt, spent, defer_timeout_at, due_at, turn",
    values: `'client', 'deferred', 1, 1, now() + interval '1 day', now() + interval '1 day', seq`,
  },
  /** Wait for a worker that never comes. */
  unserved: { columns: "executor, state, attempt, spent", values: `'worker', 'queued', 0, 0` },
  /** Wait for a worker. */
  queued: { columns: "executor, state, attempt, spent", values: `'worker', 'queued', 0, 0` },
};

/**
 * The tools of stored calls of a kind.
 *
 * @param {keyof typeof KINDS} kind
 * @param {number} tools How many.
 */
export function toolsOf(kind, tools) {
  return Array.from({ length: tools }, (_, n) => (tools === 1 ? `stored-${kind}` : `stored-${kind}-${n}`));
}

/**
 * Stores so many calls of a kind, in runs of a thousand.
 *
 * @param {import("./stack.mjs").Database} database With Trunkline's schema.
 * @param {keyof typeof KINDS} kind
 * @param {number} count
 * @param {{ tools?: number, namespace?: string }} [options] Of how many tools, by turns; and whose they are, by
 *   default another end user's for each run.
 */
export async function storeCalls(database, kind, count, { tools = 1, namespace } = {}) {
  const { columns, values } = KINDS[kind];
  const runs = Math.ceil(count / CALLS_PER_RUN);
  const names = toolsOf(kind, tools).join("', '");
  await database.query(`
    WITH run AS (
      INSERT INTO runs (project_id, id, namespace, labels)
      SELECT 1, gen_random_uuid(), ${namespace === undefined ? "'bench-' || n" : `'${namespace}'`}, '{}' FROM generate_series(1, ${runs}) n
      RETURNING project_id, id, namespace
    ), numbered AS (
      SELECT *, row_number() OVER () AS place FROM run
    )
    INSERT INTO calls (project_id, run_id, seq, key, namespace, tool, mode, max_attempts, heartbeat_timeout_ms,
      detach_grace_ms, priority, traceparent, input, version, ${columns})
    SELECT project_id, id, seq, 'stored-' || seq, namespace, (ARRAY['${names}'])[1 + seq % ${tools}], 'retry', 5, 60000, 10000, 0, '',
      '{"n":1}', 1, ${values}
    FROM numbered
    CROSS JOIN LATERAL generate_series(1, least(${CALLS_PER_RUN}, ${count} - ${CALLS_PER_RUN} * (place - 1))) seq
  `);
  await database.query("VACUUM ANALYZE calls");
}

/**
 * Ids of some stored calls of a kind.
 *
 * @param {import("./stack.mjs").Database} database
 * @param {keyof typeof KINDS} kind
 * @param {number} count
 * @returns {Promise<string[]>}
 */
export async function someStored(database, kind, count) {
  const rows = await database.query(
    `SELECT run_id || '/' || seq AS id FROM calls WHERE tool = 'stored-${kind}' ORDER BY run_id, seq LIMIT ${count}`,
  );
  return rows.map(({ id }) => id);
}
