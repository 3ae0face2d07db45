// graphile-worker: a local queue and batched completion (https://worker.graphile.org/docs/performance). It keeps no
// results and tells nobody of them, so its handler stores the result and the ids are told, both many at once.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { until } from "../subjects/polling.mjs";
import { IdTeller, listenForIds, Results } from "./result-channel.mjs";

const CHANNEL = "bench_done";
const COMPLETE_BATCH_MS = 0;
const ANY_LEFT = "SELECT FROM graphile_worker.jobs LIMIT 1";
const silent = new Logger(() => () => undefined);

/** @type {import("../subjects/subject.mjs").Subject} */
export const subject = {
  // Tried: awaited 24 jobs at once with a queue of 120, 24 without a queue, 100 with 500, 100 without: 1,140, 1,030, 910,
  // 590 calls/s, and 12 and 200 at once are slower still; pools of 10 and 50 are no better than 20. In flight 24, 100,
  // 500 are alike. In bulk 100, 500, 1,000 at once do 22, 27, 30 thousand a second. Alone 2 of 1, 2 and 10 is fastest.
  settings: {
    lone: { concurrency: 2, localQueue: 10, pool: 5 },
    awaited: { concurrency: 24, localQueue: 120, pool: 20 },
    unawaited: { concurrency: 100, localQueue: 500, pool: 20 },
    bulk: { concurrency: 1_000, localQueue: 5_000, pool: 20 },
  },
  async openerOf(url, { pool }) {
    const utils = await makeWorkerUtils({ connectionString: url, maxPoolSize: pool, logger: silent });
    await utils.migrate();
    const client = await listenForIds(url, CHANNEL, (ids) => results.came(ids));
    const results = new Results();
    await client.query("CREATE TABLE bench_results (id text PRIMARY KEY, result json NOT NULL)");
    const open = async (input) => (await utils.addJob("noop", input)).id;
    return {
      call: async (input) => results.of(String(await open(input))),
      open,
      openMany: (inputs) => utils.addJobs(inputs.map((payload) => ({ identifier: "noop", payload }))),
      drained: () => until(async () => (await client.query(ANY_LEFT)).rows.length === 0),
      close: async () => {
        await client.end();
        await utils.release();
      },
    };
  },
  async workerOf(url, { settings, handler }) {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const store = new ResultStore(client);
    const runner = await run({
      preset: {
        worker: {
          connectionString: url,
          concurrentJobs: settings.concurrency,
          maxPoolSize: settings.pool,
          localQueue: { size: settings.localQueue },
          completeJobBatchDelay: COMPLETE_BATCH_MS,
          logger: silent,
        },
      },
      taskList: {
        noop: async (payload, { job }) => store.save(String(job.id), await handler(payload)),
      },
      noHandleSignals: true,
    });
    return {
      stop: async () => {
        await runner.stop();
        await client.end();
      },
    };
  },
};

/** Stores results in batches: while one is written the next gathers. */
class ResultStore {
  #client;
  #teller;
  /** @type {{ id: string, json: string, resolve: (value?: unknown) => void }[]} */
  #waiting = [];
  #writing = false;

  constructor(client) {
    this.#client = client;
    this.#teller = new IdTeller(client, CHANNEL);
  }

  save(id, result) {
    return new Promise((resolve) => {
      this.#waiting.push({ id, json: JSON.stringify(result), resolve });
      if (this.#writing) return;
      this.#writing = true;
      setImmediate(() => void this.#flush());
    });
  }

  async #flush() {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0);
      await this.#client.query({
        name: "store_results",
        text: "INSERT INTO bench_results SELECT * FROM unnest($1::text[], $2::json[])",
        values: [batch.map(({ id }) => id), batch.map(({ json }) => json)],
      });
      for (const { id, resolve } of batch) {
        this.#teller.tell(id);
        resolve();
      }
    }
    this.#writing = false;
  }
}
