// Waits for turns of one call each, many at once, and settles their calls one after the other.
import { Trunkline } from "@trunkline/sdk";
import { answerJobs, config } from "./answering.mjs";

const client = new Trunkline({ url: config.url });

/** @type {Map<string, Promise<number>>} When each wait had ended, by the id of its call. */
const waits = new Map();

answerJobs({
  jobs: {
    wait: ({ ids }) => {
      for (const id of ids) waits.set(id, settledAt(id));
    },
    settle: async ({ ids }) => {
      const ms = [];
      for (const id of ids) {
        const startedAt = performance.now();
        await client.calls.settle(id, { type: "tool.result", result: { ok: true } });
        ms.push((await waits.get(id)) - startedAt);
      }
      return { ms };
    },
  },
  stop: () => client.close(),
});

/** In the stored turns a call has its turn's number. */
async function settledAt(id) {
  const [run, turn] = id.split("/");
  await client.runs.open(run).turn(Number(turn)).settled();
  return performance.now();
}
