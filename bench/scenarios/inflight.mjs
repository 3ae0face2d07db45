// Calls that are all held by a worker at once.
import { onStage, trunklineStack } from "../stage/stack.mjs";
import { usage } from "../stage/usage.mjs";

const CALLS = 10_000;

/** @param {import("../scenarios.mjs").Setting} setting */
export async function inflight({ postgres, report }) {
  await onStage(async (stage) => {
    const options = { concurrency: CALLS, callers: 1, hold: true };
    const { server, worker, opener } = await trunklineStack(stage, postgres, options);
    const before = await usage(server.pid);
    const { seconds } = await opener.ask("batch", { calls: CALLS });
    const { rss } = await usage(server.pid);
    await worker.ask("reach", { calls: CALLS });
    await worker.ask("letGo");
    const startedAt = performance.now();
    await opener.ask("drained");
    const answeredSeconds = (performance.now() - startedAt) / 1_000;
    const figure = { scenario: "inflight", variant: "10,000 calls", subject: "trunkline" };
    report.add({ ...figure, metric: "opened", unit: "calls/s" }, [CALLS / seconds]);
    report.add({ ...figure, metric: "answered", unit: "calls/s" }, [CALLS / answeredSeconds]);
    report.add({ ...figure, metric: "server memory", unit: "MiB" }, [rss / 2 ** 20]);
    report.add({ ...figure, metric: "server memory, idle", unit: "MiB" }, [before.rss / 2 ** 20]);
  });
}
