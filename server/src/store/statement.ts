/** A statement that is prepared once per connection, by its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

const made = new Map<string, Statement>();

/**
 * Makes a statement. Each name is used once: a connection keeps the first text that it saw under a name.
 * Values only ever come as parameters.
 */
export function statement(name: string, text: string): Statement {
  const one: Statement = { name, text };
  made.set(name, one);
  return one;
}

/** All statements of the modules that are loaded, for tests that look at every one. */
export function allStatements(): readonly Statement[] {
  return [...made.values()];
}

/*
 * Batches look rows up by key. On a new table, or with old statistics, the planner would rather read the
 * whole table once than look up ten rows, and a prepared statement keeps that plan while the table grows.
 * So the look-ups are written such that nothing else is possible: in a SELECT, as a LATERAL subquery that is
 * not flattened (OFFSET 0, or a lock); in an UPDATE, which cannot have that for its target, with the leading
 * column compared in a form that no merge could use, for then the table has no order that would be worth
 * reading all of it, and sequential scans are switched off.
 */

/** The condition by which an UPDATE or DELETE finds a call, named `row`, by the key in `key`. */
export const sameCall = (row: string, key: string): string =>
  `${row}.project_id = ANY (ARRAY[${key}.project_id]) AND ${row}.run_id = ${key}.run_id AND ${row}.seq = ${key}.seq`;

/** As {@link sameCall}, for a run. */
export const sameRun = (row: string, key: string): string =>
  `${row}.project_id = ANY (ARRAY[${key}.project_id]) AND ${row}.id = ${key}.id`;

/** As {@link sameCall}, for a session by its number. */
export const sameSession = (row: string, key: string): string => `${row}.id = ANY (ARRAY[${key}.id])`;

/** Looks the call with the key in `key` up, as `c`. */
export const lookUpCall = (key: string): string =>
  `CROSS JOIN LATERAL (
    SELECT * FROM calls WHERE project_id = ${key}.project_id AND run_id = ${key}.run_id AND seq = ${key}.seq OFFSET 0
  ) c`;

/** Looks the run of the call `c` up, as `r`. */
export const LOOK_UP_RUN = `CROSS JOIN LATERAL (
    SELECT * FROM runs WHERE project_id = c.project_id AND id = c.run_id OFFSET 0
  ) r`;

/** One above the highest number of a run's calls. The order makes the planner look at one end of the index. */
export const nextSeq = (projectId: string, runId: string): string =>
  `coalesce((
    SELECT c.seq FROM calls c WHERE c.project_id = ${projectId} AND c.run_id = ${runId} ORDER BY c.seq DESC LIMIT 1
  ), 0) + 1`;
