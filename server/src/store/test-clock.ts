import pg from "pg";

/** The schema that holds the clock. */
const SCHEMA = "trunkline_clock";

/**
 * A clock that can be moved, in a schema of its own. {@link CLOCK_SEARCH_PATH} has its `now()` found before
 * PostgreSQL's, also by the defaults and functions that migrations make. STABLE, as PostgreSQL's own: in one statement
 * the time stands still.
 */
export const CLOCK_SCHEMA = `
CREATE SCHEMA ${SCHEMA};
CREATE TABLE ${SCHEMA}.clock (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  ahead interval NOT NULL DEFAULT '0'
);
INSERT INTO ${SCHEMA}.clock DEFAULT VALUES;
CREATE FUNCTION ${SCHEMA}.now() RETURNS timestamptz LANGUAGE plpgsql STABLE PARALLEL SAFE AS
  'BEGIN RETURN pg_catalog.now() + (SELECT c.ahead FROM ${SCHEMA}.clock c); END';
`;

/** What is new is still made in `public`, which has no `now()`. */
export const CLOCK_SEARCH_PATH = `public, ${SCHEMA}, pg_catalog`;

/*
 * To the next due time, but not further than $1 milliseconds and at least $2. What lives moves along, since it would
 * have gone on saying so meanwhile: the nodes, sessions with a stream, and those of polling workers that were heard of
 * in the last $3 milliseconds. A session whose worker has left does not, so that its claims lapse.
 */
const STEP = `
WITH due AS (
  SELECT least(
    (SELECT min(due_at) FROM calls WHERE due_at IS NOT NULL), (SELECT min(due_at) FROM runs WHERE due_at IS NOT NULL)
  ) AS at
), step AS (
  SELECT least($1::bigint, greatest($2::bigint,
    coalesce(ceil(extract(epoch FROM due.at - now()) * 1000)::bigint, $1::bigint))) AS ms
  FROM due
), moved AS (
  UPDATE ${SCHEMA}.clock SET ahead = ahead + step.ms * interval '1 millisecond' FROM step
), nodes_moved AS (
  UPDATE nodes SET renewed_at = renewed_at + step.ms * interval '1 millisecond' FROM step
), sessions_moved AS (
  UPDATE sessions SET last_heard_at = last_heard_at + step.ms * interval '1 millisecond' FROM step
  WHERE state = 'attached'
    OR (state = 'silent' AND last_heard_at > now() - $3::bigint * interval '1 millisecond')
)
SELECT ms::text FROM step`;

const END_RUNS = "UPDATE runs SET state = 'ended', ended_at = now(), due_at = now() WHERE state = 'active'";
const CLEAR = "DELETE FROM calls; DELETE FROM runs";

/** A database whose clock can be moved; see {@link CLOCK_SCHEMA}. */
export class TestClock {
  readonly #client: pg.Client;

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  /** Connects to a database that has the schema. */
  static async connect(url: string): Promise<TestClock> {
    const client = new pg.Client({ connectionString: url, application_name: "trunkline test clock" });
    client.on("error", () => {});
    await client.connect();
    return new TestClock(client);
  }

  /**
   * Moves the clock to the next due time of a call or a run, but by `mostMs` at most and `leastMs` at least; nothing
   * is carried out by that.
   *
   * @param aliveMs how long a polling worker may have said nothing and still counts as alive
   * @returns by how many milliseconds it was moved
   */
  async step(mostMs: number, leastMs: number, aliveMs: number): Promise<number> {
    const { rows } = await this.#client.query<{ readonly ms: string }>(STEP, [mostMs, leastMs, aliveMs]);
    return Number(rows[0]?.ms ?? 0);
  }

  /** Ends all runs; the sweep then cancels their open calls. */
  async endRuns(): Promise<void> {
    await this.#client.query(END_RUNS);
  }

  /** Removes all calls and runs. */
  async clear(): Promise<void> {
    await this.#client.query(CLEAR);
  }

  /** Closes its connection. */
  async close(): Promise<void> {
    await this.#client.end();
  }
}
