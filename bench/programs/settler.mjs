// Settles calls by their ids, one after the other.
import { Trunkline } from "@trunkline/sdk";
import { answerJobs, config } from "./answering.mjs";

const client = new Trunkline({ url: config.url });

answerJobs({
  jobs: {
    settle: async ({ ids }) => {
      const ms = [];
      for (const id of ids) {
        const startedAt = performance.now();
        await client.calls.settle(id, { type: "tool.result", result: { ok: true } });
        ms.push(performance.now() - startedAt);
      }
      return { ms };
    },
  },
  stop: () => client.close(),
});
