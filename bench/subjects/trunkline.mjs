// Trunkline, by its SDK.
import { Trunkline } from "@trunkline/sdk";

/** @type {import("./subject.mjs").Subject} */
export const subject = {
  // Tried: awaited 100, 200, 1,000 handlers at once 5,300, 4,250, 3,740 calls/s; in flight 100, 500, 2,000, 10,000 at
  // 2,370, 4,180, 4,510, 5,360; in bulk 500, 2,000, 10,000 at 5,140, 5,370, 5,040.
  settings: {
    lone: { concurrency: 10 },
    awaited: { concurrency: 100 },
    unawaited: { concurrency: 10_000 },
    bulk: { concurrency: 4_000 },
  },
  async openerOf(url) {
    const client = new Trunkline({ url });
    const run = await client.runs.create({ namespace: "bench" });
    /** @type {import("@trunkline/sdk").CallHandle[]} */
    const handles = [];
    const open = async (input) => {
      handles.push(await run.open("noop", input));
    };
    return {
      call: (input) => run.call("noop", input),
      open,
      openMany: (inputs) => Promise.all(inputs.map(open)),
      drained: () => Promise.all(handles.splice(0).map((handle) => handle.outcome())),
      close: () => client.close(),
    };
  },
  async workerOf(url, { settings: { concurrency }, handler }) {
    const client = new Trunkline({ url });
    return new Promise((resolve) => {
      const worker = client.worker({
        concurrency,
        tools: { noop: async (input) => handler(input) },
        onStatus: (status) => status === "connected" && resolve(worker),
      });
    });
  },
};
