// DBOS: a client enqueues workflows for another process. Queue and results are polled; as often as it paid here.
import { DBOS, DBOSClient } from "@dbos-inc/dbos-sdk";
import { until } from "../subjects/polling.mjs";

// Its use of pg is deprecated, and said so at every start.
process.noDeprecation = true;

const QUEUE = "bench";
const WORKFLOW = "noop";
const APP_VERSION = "bench";
const POOL = 20;
const QUEUE_POLL_MS = 2;
/** @type {import("@dbos-inc/dbos-sdk").GetWorkflowsInput} */
const ANY_LEFT = { status: ["ENQUEUED", "PENDING"], limit: 1, loadInput: false, loadOutput: false };
/** One caller looks often; many would take the database's time from the work. */
const pollMs = (callers) => (callers === 1 ? 3 : 20);

const nothing = () => undefined;
const silent = { info: nothing, debug: nothing, warn: nothing, error: console.error };

/** @type {import("../subjects/subject.mjs").Subject} */
export const subject = {
  async openerOf(url, { callers }) {
    await prepare(url);
    const client = await DBOSClient.create({
      systemDatabaseUrl: url,
      systemDatabasePoolSize: POOL,
      logger: silent,
    });
    const pollingIntervalMs = pollMs(callers);
    const open = (input) =>
      client.enqueue({ queueName: QUEUE, workflowName: WORKFLOW, appVersion: APP_VERSION }, input);
    return {
      call: async (input) => (await open(input)).getResult({ pollingIntervalMs }),
      open,
      openMany: undefined,
      drained: () => until(async () => (await client.listWorkflows(ANY_LEFT)).length === 0),
      close: () => client.destroy(),
    };
  },
  async workerOf(url, { concurrency, handler }) {
    DBOS.registerWorkflow(async (input) => handler(input), { name: WORKFLOW });
    configure(url);
    await DBOS.launch();
    await DBOS.registerQueue(QUEUE, { workerConcurrency: concurrency, minPollingIntervalMs: QUEUE_POLL_MS });
    return { stop: () => DBOS.shutdown() };
  },
};

function configure(url) {
  DBOS.setConfig({
    name: "bench",
    systemDatabaseUrl: url,
    systemDatabasePoolSize: POOL,
    applicationVersion: APP_VERSION,
    logger: silent,
  });
}

/** Its schema is made by a launch, which the opener's process does not need for anything else. */
async function prepare(url) {
  configure(url);
  await DBOS.launch();
  await DBOS.shutdown();
}
