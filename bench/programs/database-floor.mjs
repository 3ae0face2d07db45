// What PostgreSQL alone can do: the statements of the hot path, and commits of one row.
import pg from "pg";
import { openDatabase } from "../../server/dist/store/database.js";
import { migrate } from "../../server/dist/store/migrate.js";
import { answerJobs, config } from "./answering.mjs";
import { randomText } from "./random-text.mjs";
import { makeOwners, newRows, storeAndEnd } from "./synthetic-calls.mjs";

const LANES = 2;
const SMALL = '{"n":1}';

await migrate(config.url);
const db = openDatabase({ url: config.url, maxConnections: LANES, onError: console.error });
const owners = await makeOwners(db);
const commits = new pg.Client({ connectionString: config.url });
await commits.connect();
await commits.query("CREATE TABLE single_row (id integer PRIMARY KEY, data json NOT NULL)");
let rowsMade = 0;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The time of each of so many repetitions of `work`, one after the other; fewer where the time is over before. */
async function timed({ calls, pauseMs, seconds = Infinity }, work) {
  const ms = [];
  const until = performance.now() + seconds * 1_000;
  for (let index = 0; index < calls && performance.now() < until; index++) {
    if (pauseMs > 0) await pause(pauseMs);
    const startedAt = performance.now();
    await work();
    ms.push(performance.now() - startedAt);
  }
  return { ms };
}

/** JSON text of so many bytes. */
const json = (bytes) => (bytes === undefined ? SMALL : JSON.stringify(randomText(bytes)));

answerJobs({
  jobs: {
    /** Both statements for batches of `size` calls, two batches at a time. */
    batches: async ({ size, seconds, bytes }) => {
      const text = json(bytes);
      let calls = 0;
      const startedAt = performance.now();
      const lane = async () => {
        while (performance.now() - startedAt < seconds * 1_000) {
          await storeAndEnd(db, newRows(owners, size, text), text);
          calls += size;
        }
      };
      await Promise.all(Array.from({ length: LANES }, lane));
      return { calls, seconds: (performance.now() - startedAt) / 1_000 };
    },
    /** Both statements for one call. */
    single: (options) => timed(options, () => storeAndEnd(db, newRows(owners, 1, SMALL), SMALL)),
    /** A commit that writes one small row. */
    commit: (options) =>
      timed(options, () =>
        commits.query({
          name: "single_row",
          text: "INSERT INTO single_row VALUES ($1, $2)",
          values: [rowsMade++, SMALL],
        }),
      ),
  },
  stop: async () => {
    await commits.end();
    await db.close();
  },
});
