// DBOS: a client enqueues workflows for another process. Queue and results are polled; as often as it paid here.
import pg from "pg";
import { DBOS, DBOSClient } from "@dbos-inc/dbos-sdk";
import { until } from "../subjects/polling.mjs";

// Its use of pg is deprecated, and said so at every start.
process.noDeprecation = true;

const QUEUE = "bench";
const WORKFLOW = "noop";
const APP_VERSION = "bench";
const WHAT = { queueName: QUEUE, workflowName: WORKFLOW, appVersion: APP_VERSION };
/** Enqueued in one transaction, where there are many. */
const AT_ONCE = 500;
/** @type {import("@dbos-inc/dbos-sdk").GetWorkflowsInput} */
const ANY_LEFT = { status: ["ENQUEUED", "PENDING"], limit: 1, loadInput: false, loadOutput: false };

const nothing = () => undefined;
const silent = { info: nothing, debug: nothing, warn: nothing, error: console.error };

/** @type {import("../subjects/subject.mjs").Subject} */
export const subject = {
  // Tried: results looked for every 10 ms by 10 at once, every 20 and every 40 ms awaited 650, 590, 450 calls/s; pools of
  // 20 and 50, queues looked at every 2, 10, 20 ms, and 100, 500, 1,000 at once are alike. In bulk 4 or 8 transactions
  // at a time are a quarter faster than one. Alone, looking every 5 ms is slower and every 1 ms no faster.
  settings: {
    lone: { concurrency: 10, pool: 20, queuePollMs: 2, resultPollMs: 3 },
    awaited: { concurrency: 100, pool: 20, queuePollMs: 2, resultPollMs: 10, polls: 10 },
    unawaited: { concurrency: 500, pool: 20, queuePollMs: 2, resultPollMs: 20 },
    bulk: { concurrency: 500, pool: 20, queuePollMs: 2, resultPollMs: 20 },
  },
  async openerOf(url, { pool, polls, lanes, resultPollMs: pollingIntervalMs }) {
    await prepare(url, pool);
    const client = await DBOSClient.create({
      systemDatabaseUrl: url,
      systemDatabasePoolSize: pool,
      systemDatabasePollingConcurrency: polls,
      logger: silent,
    });
    const transactions = new pg.Pool({ connectionString: url, max: lanes });
    const open = (input) => client.enqueue(WHAT, input);
    const openSome = async (inputs) => {
      const connection = await transactions.connect();
      await connection.query("BEGIN");
      for (const input of inputs) await client.enqueueInTransaction(connection, WHAT, input);
      await connection.query("COMMIT");
      connection.release();
    };
    return {
      call: async (input) => (await open(input)).getResult({ pollingIntervalMs }),
      open,
      openMany: (inputs) => {
        const starts = Array.from({ length: Math.ceil(inputs.length / AT_ONCE) }, (_, n) => n * AT_ONCE);
        return Promise.all(starts.map((from) => openSome(inputs.slice(from, from + AT_ONCE))));
      },
      drained: () => until(async () => (await client.listWorkflows(ANY_LEFT)).length === 0),
      close: async () => {
        await transactions.end();
        await client.destroy();
      },
    };
  },
  async workerOf(url, { settings, handler }) {
    DBOS.registerWorkflow(async (input) => handler(input), { name: WORKFLOW });
    configure(url, settings.pool);
    await DBOS.launch();
    await DBOS.registerQueue(QUEUE, {
      workerConcurrency: settings.concurrency,
      minPollingIntervalMs: settings.queuePollMs,
    });
    return { stop: () => DBOS.shutdown() };
  },
};

function configure(url, pool) {
  DBOS.setConfig({
    name: "bench",
    systemDatabaseUrl: url,
    systemDatabasePoolSize: pool,
    applicationVersion: APP_VERSION,
    logger: silent,
  });
}

/** Its schema is made by a launch, which the opener's process does not need for anything else. */
async function prepare(url, pool) {
  configure(url, pool);
  await DBOS.launch();
  await DBOS.shutdown();
}
