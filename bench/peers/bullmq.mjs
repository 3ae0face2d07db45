// BullMQ on Redis: results by its own events. Pipelining by the driver made it slower here
// (https://docs.bullmq.io/guide/workers/concurrency, https://docs.bullmq.io/guide/queues/adding-bulks).
import { Queue, QueueEvents, Worker } from "bullmq";
import { Redis } from "ioredis";
import { until } from "../subjects/polling.mjs";

const QUEUE = "noop";
const KEEP = { removeOnComplete: { count: 10_000 } };

const connect = (url) => new Redis(url, { maxRetriesPerRequest: null });

/** @type {import("../subjects/subject.mjs").Subject} */
export const subject = {
  // Tried: awaited 25, 50, 100, 200 handlers at once 2,580, 1,080, 780, 600 calls/s; in bulk 50, 100, 500 at 2,760,
  // 2,070, 1,830; in flight 25 to 500 differ less than the runs of one, and 1,000 is half of them; alone 1 to 100 are
  // alike.
  settings: {
    lone: { concurrency: 10 },
    awaited: { concurrency: 25 },
    unawaited: { concurrency: 100 },
    bulk: { concurrency: 50 },
  },
  async openerOf(url) {
    const queue = new Queue(QUEUE, { connection: connect(url), defaultJobOptions: KEEP });
    const events = new QueueEvents(QUEUE, { connection: connect(url) });
    // Every caller that waits listens once.
    for (const emitter of [queue, events]) emitter.setMaxListeners(0);
    await events.waitUntilReady();
    const open = (input) => queue.add(QUEUE, input);
    return {
      call: async (input) => (await open(input)).waitUntilFinished(events),
      open,
      openMany: (inputs) => queue.addBulk(inputs.map((data) => ({ name: QUEUE, data }))),
      drained: () => until(async () => (await queue.getJobCountByTypes("waiting", "active")) === 0),
      close: async () => {
        await events.close();
        await queue.close();
      },
    };
  },
  async workerOf(url, { settings: { concurrency }, handler }) {
    const connection = connect(url);
    const worker = new Worker(QUEUE, async ({ data }) => handler(data), { connection, concurrency });
    await worker.waitUntilReady();
    return { stop: () => worker.close() };
  },
};
