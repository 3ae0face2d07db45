// pg-boss: batches fetched and completed in a loop of one's own, since `work` polls at most twice a second. It wakes
// nobody, so the opener tells the worker of new jobs and the worker the opener of completed ones, many at once.
import pg from "pg";
import PgBoss from "pg-boss";
import { until } from "../subjects/polling.mjs";
import { IdTeller, listenForIds, Results } from "./result-channel.mjs";

const QUEUE = "noop";
const NEW = "bench_new";
const DONE = "bench_done";
const IDLE_MS = 500;
const INSERT_AT_ONCE = 1_000;
const ANY_LEFT = "SELECT FROM pgboss.job WHERE state < 'completed' LIMIT 1";

const bossOf = (url, options) =>
  new PgBoss({ connectionString: url, supervise: false, schedule: false, ...options });

/** @type {import("../subjects/subject.mjs").Subject} */
export const subject = {
  // Tried: awaited batches of 50, 100, 500, and of 100 by two loops, at 2,040, 2,540, 2,270, 2,250 calls/s; a pool of 10
  // or no priorities are no better. In flight 100 and 500 are alike, and before 1,000 by two loops. In bulk 500, 1,000,
  // 2,000 do 17, 17, 12 thousand a second; two loops or no priorities are no better. Alone 10 comes before 1.
  settings: {
    lone: { concurrency: 10, loops: 1, priority: true, pool: 20 },
    awaited: { concurrency: 100, loops: 1, priority: true, pool: 20 },
    unawaited: { concurrency: 500, loops: 1, priority: true, pool: 20 },
    bulk: { concurrency: 500, loops: 1, priority: true, pool: 20 },
  },
  async openerOf(url, { pool }) {
    const boss = bossOf(url, { max: pool });
    await boss.start();
    await boss.createQueue(QUEUE);
    const results = new Results();
    const listener = await listenForIds(url, DONE, (ids) => results.came(ids));
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const teller = new IdTeller(client, NEW);
    const open = async (input) => {
      const id = await boss.send(QUEUE, input);
      teller.tell(id);
      return id;
    };
    return {
      call: async (input) => results.of(await open(input)),
      open,
      openMany: async (inputs) => {
        for (let from = 0; from < inputs.length; from += INSERT_AT_ONCE) {
          const some = inputs.slice(from, from + INSERT_AT_ONCE);
          await boss.insert(some.map((data) => ({ name: QUEUE, data })));
          teller.tell("many");
        }
      },
      drained: () => until(async () => (await client.query(ANY_LEFT)).rows.length === 0),
      close: async () => {
        await listener.end();
        await client.end();
        await boss.stop({ graceful: false });
      },
    };
  },
  async workerOf(url, { settings: { concurrency, loops, priority, pool }, handler }) {
    const boss = bossOf(url, { migrate: false, max: pool });
    await boss.start();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const teller = new IdTeller(client, DONE);
    const options = { fetching: { batchSize: Math.ceil(concurrency / loops), priority }, handler };
    const all = Array.from({ length: loops }, () => new FetchLoop(boss, teller, options));
    const listener = await listenForIds(url, NEW, () => all.forEach((loop) => loop.wake()));
    const running = Promise.all(all.map((loop) => loop.run()));
    return {
      stop: async () => {
        all.forEach((loop) => loop.stop());
        await running;
        await listener.end();
        await client.end();
        await boss.stop({ graceful: false });
      },
    };
  },
};

/** Fetches batches, one after the other, for as long as there are any. */
class FetchLoop {
  #boss;
  #teller;
  #options;
  #stopped = false;
  #news = false;
  #wake = () => undefined;

  constructor(boss, teller, options) {
    this.#boss = boss;
    this.#teller = teller;
    this.#options = options;
  }

  wake() {
    this.#news = true;
    this.#wake();
  }

  stop() {
    this.#stopped = true;
    this.#wake();
  }

  async run() {
    const { fetching, handler } = this.#options;
    while (!this.#stopped) {
      this.#news = false;
      const jobs = await this.#boss.fetch(QUEUE, fetching);
      if (jobs.length === 0) {
        if (!this.#news) await this.#rest();
        continue;
      }
      await Promise.all(jobs.map(({ data }) => handler(data)));
      const ids = jobs.map(({ id }) => id);
      await this.#boss.complete(QUEUE, ids, { done: true });
      for (const id of ids) this.#teller.tell(id);
    }
  }

  #rest() {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, IDLE_MS);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
  }
}
