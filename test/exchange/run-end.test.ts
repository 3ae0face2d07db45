import { expect, test } from "vitest";
import { endRun } from "../../server/src/exchange/run-end.js";
import { attach, newName, newRun, open, SCOPE, useExchanges } from "./support/exchanges.js";

const nodes = useExchanges();

test("a run with more calls than are canceled at once ends whole, and what had ended stays as it was", async () => {
  const { exchange, faults } = await nodes.start();
  const run = await newRun(exchange);
  const tool = newName("tool");
  const worker = await attach(exchange, { tools: [tool], slots: 1 });
  const claimed = await open(exchange, run, { tool });
  const { claim } = (await worker.offerOf(claimed)).call;
  const calls = await Promise.all(Array.from({ length: 2_100 }, () => open(exchange, run)));
  const settled = calls[1_500]!;
  const answer = { type: "result", resultJson: "1" } as const;
  await exchange.apply(settled, { type: "settle", attempt: null, answer }, SCOPE);
  await Promise.all([endRun(exchange, SCOPE, run.record.id), endRun(exchange, SCOPE, run.record.id)]);
  const { rows } = await nodes.database
    .pool()
    .query<{ state: string; count: number }>(
      "SELECT state, count(*)::int FROM calls WHERE run_id = $1 GROUP BY state ORDER BY count",
      [run.record.id],
    );
  expect(rows).toEqual([
    { state: "succeeded", count: 1 },
    { state: "canceled", count: 2_100 },
  ]);
  expect(worker.revoked).toEqual([{ claimId: claim.id, cause: "run_ended" }]);
  const due = await nodes.database.pool().query("SELECT due_at FROM runs WHERE id = $1", [run.record.id]);
  expect(due.rows).toEqual([{ due_at: null }]);
  expect(faults).toEqual([]);
});
