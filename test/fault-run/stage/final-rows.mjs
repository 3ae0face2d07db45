/** How many rows are read at once. */
const PAGE = 5_000;

/** Nothing of the server's code: what is in the tables, as text where digits matter. */
const CALLS = `
  SELECT id, run_id, seq, key, tool, turn, mode, executor, state, attempt, spent, max_attempts,
    input::text AS input_text, result::text AS result_text, failure,
    extract(epoch FROM opened_at) * 1000 AS opened_ms,
    extract(epoch FROM claimed_at) * 1000 AS claimed_ms,
    extract(epoch FROM ended_at) * 1000 AS ended_ms,
    array_to_json(attempts) AS attempts
  FROM calls WHERE id > $1 ORDER BY id LIMIT ${PAGE}`;

/**
 * Writes the final state of all calls and runs into a history, read by plain SQL.
 *
 * @param {import("./postgres.mjs").Database} database
 * @param {import("../history.mjs").History} history
 */
export async function writeFinalRows(database, history) {
  for (let after = "0"; ;) {
    const rows = await database.query(CALLS, [after]);
    for (const row of rows) history.write(callRow(row));
    if (rows.length < PAGE) break;
    after = rows.at(-1).id;
  }
  for (const { id, key, state } of await database.query("SELECT id, key, state FROM runs")) {
    history.write({ type: "run-row", run: id, key, state });
  }
}

/** Calls that have not ended. @param {import("./postgres.mjs").Database} database */
export async function countOpen(database) {
  const [row] = await database.query(
    `SELECT count(*)::int AS open, count(*) FILTER (WHERE tool = 'patient')::int AS patient
    FROM calls WHERE state IN ('queued', 'claimed', 'deferred')`,
  );
  return /** @type {{ open: number, patient: number }} */ (row);
}

/**
 * Notes those calls that are to have waited through all faults.
 *
 * @param {import("./postgres.mjs").Database} database
 * @param {import("../history.mjs").History} history
 */
export async function writeWaiting(database, history) {
  const rows = await database.query(
    "SELECT run_id, seq, state FROM calls WHERE tool = 'patient' AND ended_at IS NULL",
  );
  for (const { run_id, seq, state } of rows) {
    history.write({ type: "waiting-at-end", id: `${run_id}/${seq}`, state });
  }
}

/**
 * Notes what the database's clock says now; the answer took so little that it tells the time.
 *
 * @param {import("./postgres.mjs").Database} database
 * @param {import("../history.mjs").History} history
 */
export async function writeClock(database, history) {
  const [row] = await database.query("SELECT extract(epoch FROM clock_timestamp()) * 1000 AS ms");
  history.write({ type: "clock", databaseMs: Number(row.ms) });
}

/**
 * @param {any} row As {@link CALLS} says.
 * @returns {import("../events.mjs").Written}
 */
function callRow(row) {
  return {
    type: "row",
    id: `${row.run_id}/${row.seq}`,
    run: row.run_id,
    key: row.key,
    tool: row.tool,
    turn: row.turn,
    mode: row.mode,
    executor: row.executor,
    state: row.state,
    attempt: row.attempt,
    spent: row.spent,
    maxAttempts: row.max_attempts,
    inputJson: row.input_text,
    resultJson: row.result_text,
    failure: row.failure === null ? null : failureOf(row.failure),
    openedAt: Number(row.opened_ms),
    claimedAt: milliseconds(row.claimed_ms),
    endedAt: milliseconds(row.ended_ms),
    attempts: (row.attempts ?? []).map((/** @type {any} */ attempt) => ({
      number: attempt.number,
      claimedAt: attempt.claimedAt === null ? null : attempt.claimedAt / 1_000,
      endedAt: attempt.endedAt / 1_000,
      kind: attempt.failure.kind,
    })),
  };
}

/** @param {string | null} value */
const milliseconds = (value) => (value === null ? null : Number(value));

/**
 * @param {any} failure As the column has it.
 * @returns {import("../events.mjs").FailureSeen}
 */
function failureOf({ kind, message, dataJson, retryable, outcomeUnknown }) {
  return { kind, message, dataJson: dataJson ?? null, retryable, outcomeUnknown };
}
