// Trunkline, by its SDK.
import { Trunkline } from "@trunkline/sdk";

/** @type {import("./subject.mjs").Subject} */
export const subject = {
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
  async workerOf(url, { concurrency, handler }) {
    const client = new Trunkline({ url });
    return client.worker({ concurrency, tools: { noop: async (input) => handler(input) } });
  },
};
