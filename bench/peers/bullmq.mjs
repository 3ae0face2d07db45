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
  async workerOf(url, { concurrency, handler }) {
    const connection = connect(url);
    const worker = new Worker(QUEUE, async ({ data }) => handler(data), { connection, concurrency });
    await worker.waitUntilReady();
    return { stop: () => worker.close() };
  },
};
